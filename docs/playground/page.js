// SPDX-License-Identifier: MIT
// The page: the fields of a tab (tabs.js), the commands that answer it (program.js), and the address that has all of it.
import {load, Program} from './program.js';
import {tabs} from './tabs.js';
import {lineOf, wordsOf} from './words.js';

const byId = (id) => document.getElementById(id);
const files = new Map();  // of the reader, and what commands wrote: name -> bytes
const lists = new Map();  // lines that fields suggest: name -> promise of an array
const values = new Map(tabs.map((tab) => [tab.id, initial(tab)]));
const longestLink = 8000;
let table = null;  // what `list --json` gives, which takes half a second and is always the same
let tab = tabs[0], program = null, pending = 0, wanted = 0;

function initial(tab) {
  return Object.fromEntries(tab.fields.map((field) => [field.name, field.value]));
}

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== 'list' && key !== 'form') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function say(text, isBad = false) {
  byId('status').textContent = text;
  byId('status').classList.toggle('bad', isBad);
}

// The address: #descriptor?d=0x4000004000010000&rows=64, with the fields that differ from the page's own.

function address() {
  const own = values.get(tab.id), isShown = (field) => !field.transient && !field.file && (!field.when || field.when(own));
  const changed = tab.fields.filter((field) => isShown(field) && own[field.name] !== field.value);
  const query = new URLSearchParams(changed.map((field) => [field.name, String(values.get(tab.id)[field.name])]));
  // Readable in a document: what a fragment may have stays as it is.
  const text = query.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/');
  return `#${tab.id}${text ? '?' + text : ''}`;
}

function takeAddress() {
  const [id, query] = location.hash.slice(1).split(/\?(.*)/s);
  tab = tabs.find((other) => other.id === id) ?? tabs[0];
  if (query === undefined) return;
  const taken = values.get(tab.id);
  const given = new URLSearchParams(query);
  for (const field of tab.fields) {
    if (field.file) continue;
    const text = given.get(field.name);
    taken[field.name] = text === null ? field.value : field.check ? text === 'true' : text;
  }
}

// The fields.

function showTabs() {
  byId('tabs').replaceChildren(...tabs.map((other) => element('button', {
    type: 'button', role: 'tab', id: `tab-${other.id}`, textContent: other.title, 'aria-selected': String(other === tab), 'aria-controls': 'panel',
    tabIndex: other === tab ? 0 : -1, onclick: () => choose(other),
  })));
  byId('panel').setAttribute('aria-labelledby', `tab-${tab.id}`);
}

byId('tabs').onkeydown = (event) => {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  const to = event.key === 'Home' ? 0 : event.key === 'End' ? tabs.length - 1 : step ? (tabs.indexOf(tab) + step + tabs.length) % tabs.length : -1;
  if (to < 0) return;
  event.preventDefault();
  choose(tabs[to]);
  byId(`tab-${tab.id}`).focus();
};

function choose(other) {
  tab = other;
  history.pushState(null, '', address());
  show();
}

function control(field) {
  const value = values.get(tab.id)[field.name];
  const common = {name: field.name, id: `field-${field.name}`};
  if (field.check) return element('input', {...common, type: 'checkbox', checked: value});
  if (field.lines) return element('textarea', {...common, rows: field.lines, value, spellcheck: false, wrap: 'off'});
  const options = field.file ? ['', ...files.keys()] : field.options;
  if (options) {
    const shown = (option) => option || (field.file ? 'none' : 'its own');
    const select = element('select', common, ...options.map((option) => element('option', {value: option, textContent: shown(option)})));
    select.value = options.includes(value) ? value : '';
    return select;
  }
  const input = element('input', {...common, value, size: field.wide ? 20 : field.size ?? 12, autocomplete: 'off', autocapitalize: 'off', spellcheck: false});
  if (field.list) input.setAttribute('list', `list-${field.list}`);
  return input;
}

function labelled(field) {
  const input = control(field);
  const classes = [field.wide ? 'wide' : '', field.check ? 'check' : ''].join(' ').trim();
  return field.check ? element('label', {className: classes}, input, field.label) : element('label', {className: classes}, field.label, input);
}

function showForm() {
  const focused = document.activeElement?.name, at = document.activeElement?.selectionStart;
  const shown = tab.fields.filter((field) => !field.when || field.when(values.get(tab.id)));
  const parts = shown.map(labelled);
  if (tab.takesFiles) parts.unshift(dropZone());
  if (shown.some((field) => field.name === 'find')) parts.splice(1, 0, element('label', {className: 'wide', id: 'found', hidden: true}));
  byId('form').replaceChildren(...parts, element('button', {type: 'submit', className: 'main', textContent: 'Run'}));
  const again = focused && byId(`field-${focused}`);
  if (again) {
    again.focus();
    if (at !== undefined && at !== null && again.setSelectionRange) again.setSelectionRange(at, at);
  }
}

const listCommands = {mnemonics: ['list', '--mnemonics'], functions: ['math', '--list']};

/** The lines of a list, asked for once; none if the command was stopped. */
async function linesOf(name) {
  if (!lists.has(name)) lists.set(name, program.run(listCommands[name]).then((answer) => answer.out.trim().split('\n')));
  try {
    return await lists.get(name);
  } catch {
    lists.delete(name);
    return [];
  }
}

/** Lists for the fields that have one. They take half a second: after the answer. */
async function suggest(shownTab) {
  for (const name of new Set(shownTab.fields.flatMap((field) => field.list ?? []))) {
    const lines = await linesOf(name);
    if (lines.length > 0 && !byId(`list-${name}`))
      document.body.append(element('datalist', {id: `list-${name}`}, ...lines.map((value) => element('option', {value}))));
  }
}

/** Instructions with all the words; choosing one fills the field. */
async function find(text) {
  const place = byId('found'), words = text.toLowerCase().trim().split(/\s+/).filter((word) => word);
  if (!place) return;
  if (words.length === 0 || !program) {
    place.hidden = true;
    return;
  }
  const lines = (await linesOf('mnemonics')).filter((line) => words.every((word) => line.includes(word)));
  const select = element('select', {size: 6, onchange: () => {
    set('i', select.value);
    byId('field-i').value = select.value;
    answer();
  }}, ...lines.slice(0, 300).map((value) => element('option', {value, textContent: value})));
  place.hidden = false;
  place.replaceChildren(lines.length > 300 ? `the first 300 of ${lines.length} instructions` : `${lines.length} instructions`, select);
}

function dropZone() {
  const take = async (list) => {
    for (const file of list) files.set(file.name.replaceAll('/', '_'), new Uint8Array(await file.arrayBuffer()));
    chooseFiles([...list].map((file) => file.name));
  };
  const zone = element('div', {
    className: 'drop',
    ondragover(event) {
      event.preventDefault();
      zone.classList.add('over');
    },
    ondragleave: () => zone.classList.remove('over'),
    ondrop(event) {
      event.preventDefault();
      zone.classList.remove('over');
      take(event.dataTransfer.files);
    },
  }, 'Drop files here, or ', element('input', {type: 'file', multiple: true, 'aria-label': 'Choose files', onchange: (event) => take(event.target.files)}));
  if (tab.id === 'files') zone.append(' ', element('button', {type: 'button', textContent: 'Take an example', onclick: takeExample}));
  for (const name of files.keys()) zone.append(' ', download(name, files.get(name)));
  return zone;
}

function chooseFiles(names) {
  const chosen = values.get('files');
  for (const name of names) {
    if (chosen.expected === '') chosen.expected = name;
    else if (name !== chosen.expected) chosen.actual = name;
  }
  showForm();
  if (tab.id === 'files') answer();
}

/** A case, and what a kernel makes of it that forgets scale-d, so that C is not added. */
async function takeExample() {
  const wgmma = 'wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16';
  for (const [name, flags] of [['expected.safetensors', []], ['actual.safetensors', ['--scale-d', '0']]]) {
    const made = await program.run(['golden', wgmma, '--cases', '1', '--seed', '1', ...flags, '-o', name]);
    files.set(name, made.files.get(name));
  }
  Object.assign(values.get('files'), {expected: 'expected.safetensors', actual: 'actual.safetensors'});
  showForm();
  answer();
}

function set(name, value) { values.get(tab.id)[name] = value; }

byId('form').oninput = (event) => {
  const field = tab.fields.find((other) => other.name === event.target.name);
  if (!field) return;
  set(field.name, field.check ? event.target.checked : event.target.value);
  if (field.name === 'find') find(event.target.value);
};
byId('form').onchange = (event) => {
  const field = tab.fields.find((other) => other.name === event.target.name);
  if (!field || field.name === 'find') return;
  if (tab.fields.some((other) => other.when)) showForm();
  if (!field.lines) answer();
};
byId('form').onsubmit = (event) => {
  event.preventDefault();
  answer();
};
byId('form').onkeydown = (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) answer();
};

// The answers.

function copyButton(text, label = 'Copy') {
  const button = element('button', {type: 'button', textContent: label, onclick: async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = label; }, 1500);
  }});
  return button;
}

function download(name, bytes) {
  const type = name.endsWith('.svg') ? 'image/svg+xml' : 'application/octet-stream';
  return element('a', {href: URL.createObjectURL(new Blob([bytes], {type})), download: name, textContent: name});
}

function textView({out, err}) { return element('pre', {textContent: out + err, tabIndex: 0}); }

function pictureView(answer, args) {
  const at = args.findIndex((word) => word === '--svg' || word.startsWith('--svg='));
  const name = args[at].includes('=') ? args[at].slice('--svg='.length) : args[at + 1], bytes = answer.files.get(name);
  if (!bytes) return textView(answer);
  const source = URL.createObjectURL(new Blob([bytes], {type: 'image/svg+xml'}));
  return element('div', {className: 'picture', tabIndex: 0}, element('img', {src: source, alt: `Picture that ${lineOf(args)} draws`}));
}

/** D of `simulate`: a button an element, of which Tab reaches the chosen one and the arrow keys the others. */
function gridView(answer) {
  const lines = answer.out.split('\n'), rows = lines.map((line) => line.match(/^row (\d+)\s+(.*)/)).filter((match) => match);
  if (rows.length === 0) return textView(answer);
  const chosen = values.get('compute'), columns = rows[0][2].trim().split(/\s+/).length;
  const isChosen = (row, col) => row === chosen.row && String(col) === chosen.col;
  const head = element('tr', {}, element('th'), ...Array.from({length: columns}, (_, col) => element('th', {scope: 'col', textContent: col})));
  const body = rows.map(([, row, line]) => element('tr', {}, element('th', {scope: 'row', textContent: row}), ...line.trim().split(/\s+/).map((value, col) =>
    element('td', {}, element('button', {
      type: 'button', textContent: shortened(value), title: `D[${row}, ${col}] = ${value}`, 'aria-pressed': String(isChosen(row, col)),
      tabIndex: isChosen(row, col) ? 0 : -1,
      onclick: () => {
        Object.assign(chosen, {row, col: String(col)});
        showForm();
        answerAll().then(() => document.querySelector('.grid [aria-pressed=true]')?.focus({preventScroll: true}));
      },
    })))));
  if (!body.some((line) => line.querySelector('[tabindex="0"]'))) body[0].querySelector('button').tabIndex = 0;
  const place = element('tbody', {onkeydown(event) {
    const [down, right] = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1]}[event.key] ?? [0, 0];
    const cell = event.target.closest('td'), next = place.rows[cell.parentNode.sectionRowIndex + down]?.cells[cell.cellIndex + right]?.querySelector('button');
    if (!next || (down === 0 && right === 0)) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }}, ...body);
  const notes = lines.filter((line) => line !== '' && !/^(row|D) /.test(line)).join('\n');
  return element('div', {}, element('pre', {className: 'notes', textContent: notes}), element('div', {className: 'grid'}, element('table', {}, element('thead', {}, head), place)));
}

/** `explain` of an element: its value and code, then the text, which says how they come about. */
function explainedView(answer) {
  const d = answer.out.match(/^D = (0x[0-9a-f]+) \((.*)\)$/m), {row, col} = values.get('compute');
  const notes = d ? [element('pre', {className: 'notes', textContent: `D[${row}, ${col}] = ${d[2]}, code ${d[1]}`})] : [];
  return element('div', {}, ...notes, textView(answer));
}

/** Six digits show which elements are alike; the title has all of them. */
function shortened(value) {
  const number = Number(value), size = Math.abs(number);
  if (value.replace(/\D/g, '').length <= 7 || !Number.isFinite(number)) return value;
  return size >= 1e7 || size < 1e-4 ? number.toExponential(4) : String(Number(number.toPrecision(6)));
}

/** The rows of `list --json` for an instruction: of its name, shape and types, a line for GPUs with the same evidence. */
function evidenceView(answer, args, {instruction}) {
  const parts = instruction.split('.'), isType = /^(b?f16|tf32|f32|f64|e[0-9]m[0-9]|[su](8|4|32)|b1)$/;
  const used = parts.filter((part) => isType.test(part)), kind = parts.find((part) => part.startsWith('kind::'));
  const isOf = (types, type) => type === undefined || (types ?? '').split(/[\s,]+/).includes(type);
  const rows = JSON.parse(answer.out).filter((row) => {
    const [name, shape] = row.instruction.split(' '), own = name.split('.');
    if (!own.every((word) => parts.includes(word)) || own.includes('sp') !== parts.some((part) => part === 'sp' || part.startsWith('sp::'))) return false;
    if (shape && !parts.includes(shape) && shape.replace('kind::', '') !== kind?.replace('kind::', '')) return false;
    return parts[0] === 'tcgen05' || [row.d, row.a, row.b].every((types, i) => isOf(types, used[i]));
  });
  if (rows.length === 0) return element('p', {textContent: 'The list has no row for this text; the command below prints all of it.'});
  const cells = (name, ...texts) => element('tr', {}, ...texts.map((textContent) => element(name, {textContent})));
  const lines = rows.flatMap((row) => [...new Set(row.targets.map((target) => row.evidence_by_target[target]))].map((evidence) =>
    cells('td', row.targets.filter((target) => row.evidence_by_target[target] === evidence).join(' '), [row.d, row.a, row.b].join(', '), row.arithmetic, evidence)));
  return element('div', {className: 'rows'}, element('table', {}, element('thead', {}, cells('th', 'GPUs', 'D, A, B', 'Arithmetic', 'Evidence')), element('tbody', {}, ...lines)));
}

const views = {text: textView, picture: pictureView, grid: gridView, explained: explainedView, evidence: evidenceView};

function answerSection(args, options, result) {
  const refused = result.code === 2;
  const view = refused ? textView(result) : (views[options.as] ?? textView)(result, args, options);
  // A line breaks between its words.
  const words = lineOf(args).split(/(\s+)/).map((word) => (word.length > 40 || /^\s+$/.test(word) ? word : element('span', {textContent: word})));
  const command = element('p', {className: 'command'}, element('code', {}, ...words), copyButton(() => lineOf(args)),
    element('small', {textContent: `${Math.max(1, Math.round(result.milliseconds))} ms`}));
  const section = element('section', {className: refused ? 'answer refused' : 'answer'});
  if (options.title) section.append(element('h2', {textContent: options.title}));
  section.append(view, command);
  const written = args.flatMap((word, i) => (['-o', '--output', '--svg', '--trace-to', '--trace-product'].includes(args[i - 1]) && result.files.has(word) ? [word] : []));
  for (const name of written) command.append(download(name, result.files.get(name)));
  return section;
}

/** Puts an answer in the place of the one that was there, so that the page does not jump and D stays scrolled. */
function showSection(place, index, section) {
  const old = place.children[index], grid = old?.querySelector('.grid');
  const at = grid && [grid.scrollLeft, grid.scrollTop];
  if (old) old.replaceWith(section);
  else place.append(section);
  if (at) section.querySelector('.grid')?.scrollTo(...at);
}

function answer() { answerAll().catch((error) => say(error.message, true)); }

async function answerAll() {
  const number = ++wanted, asked = tab, place = byId('answers');
  history.replaceState(null, '', address());
  showLink();
  if (!program) return;
  if (program.isBusy && pending > 0) program.stop();  // an older question
  let sections = 0;
  const ask = async (args, options = {}) => {
    const result = options.as === 'evidence' && table ? table : await program.run(args, options.files ?? new Map());
    if (number !== wanted) throw new Error('stopped');
    if (options.as === 'evidence') table = result;
    if (options.keeps) for (const [name, bytes] of result.files) files.set(name, bytes);
    showSection(place, sections++, answerSection(args, options, result));
    return result;
  };
  ++pending;
  const slow = setTimeout(() => { byId('stop').hidden = false; }, 300);
  try {
    await asked.answer(values.get(asked.id), ask, files, wordsOf);
    if (number === wanted) {
      while (place.children.length > sections) place.lastChild.remove();
      if (asked.id === 'command') showForm();  // with the files that were written
      say(ready);
    }
  } catch (error) {
    if (number === wanted) say(error.message === 'stopped' ? 'Stopped.' : `Error: ${error.message}`, error.message !== 'stopped');
  } finally {
    --pending;
    clearTimeout(slow);
    if (pending === 0) byId('stop').hidden = true;
    document.body.dataset.answered = String(number);
    if (number === wanted) suggest(asked);
  }
}

byId('stop').onclick = () => program.stop();

function showLink() {
  const link = byId('link'), [anchor, button] = link.children, full = location.href;
  link.hidden = false;
  anchor.href = full;
  anchor.textContent = full.length > longestLink ? 'The link is too long to be shown' : full;
  button.onclick = () => navigator.clipboard.writeText(full);
}

function show() {
  document.title = `${tab.title} · bitmma playground`;
  showTabs();
  byId('intro').textContent = tab.intro;
  byId('answers').replaceChildren();
  showForm();
  answer();
}

let ready = '';
onhashchange = onpopstate = () => {
  if (location.hash === address()) return;
  takeAddress();
  show();
};
takeAddress();
show();
try {
  const began = performance.now(), module = await load(new URL('bitmma.wasm', import.meta.url));
  program = new Program(module);
  const version = (await program.run(['--version'])).out.trim();
  ready = `bitmma ${version.replace(/^bitmma /, '')}, loaded in ${((performance.now() - began) / 1000).toFixed(1)} s`;
  say(ready);
  document.querySelector('footer p').append(' · ', element('a', {href: 'notices.txt', textContent: 'Licenses of what is compiled in'}));
  showForm();
  answer();
} catch (error) {
  say(error.message, true);
}
