// SPDX-License-Identifier: MIT
// Command lines as text and as words, as a POSIX shell reads them.

/** The line to copy. */
export function lineOf(args) {
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  return ['bitmma', ...args.map(quoted)].join(' ');
}

/** The words of a line, without a `bitmma` in front. Throws an Error for a quote without its end. */
export function wordsOf(line) {
  const words = [];
  let word = null, quote = '';
  for (let i = 0; i < line.length; ++i) {
    const c = line[i];
    if (quote === "'" || quote === '"') {
      if (c === quote) quote = '';
      else if (quote === '"' && c === '\\' && '"\\$`'.includes(line[i + 1])) word += line[++i];
      else word += c;
    } else if (c === "'" || c === '"') {
      quote = c;
      word ??= '';
    } else if (c === '\\' && i + 1 < line.length) {
      if (line[++i] !== '\n') word = (word ?? '') + line[i];
    } else if (/\s/.test(c)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + c;
    }
  }
  if (quote) throw new Error(`the line lacks the second ${quote}`);
  if (word !== null) words.push(word);
  return words[0] === 'bitmma' ? words.slice(1) : words;
}
