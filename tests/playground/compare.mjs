// SPDX-License-Identifier: MIT
// Has bitmma.wasm the bits of the native program? Runs the lines of commands.txt with both and compares text, exit codes and written
// files byte for byte; then recomputes all golden files in one call, as the native program does.
//   node compare.mjs bitmma.wasm bitmma
import {spawnSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url)), source = path.resolve(here, '../..');
const {run} = await import(path.join(source, 'docs/playground/wasi.js'));
const {wordsOf} = await import(path.join(source, 'docs/playground/words.js'));
const [wasm, native] = process.argv.slice(2).map((name) => path.resolve(name));

const began = performance.now();
const module = new WebAssembly.Module(fs.readFileSync(wasm));
console.log(`compiled ${fs.statSync(wasm).size} bytes in ${(performance.now() - began).toFixed(0)} ms`);

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bitmma-'));
/** With a file as its standard output, since Node's pipes are sockets, which the program does not write to by name. */
function runNative(args, cwd) {
  const name = path.join(folder, 'standard_output'), output = fs.openSync(name, 'w');
  const {status, stderr} = spawnSync(native, args, {cwd, env: {}, stdio: ['ignore', output, 'pipe'], maxBuffer: 1 << 28});
  fs.closeSync(output);
  return {status, stderr, stdout: fs.readFileSync(name)};
}
/** Help texts name this machine's processors. */
const withoutMachine = (text) => text.toString().replaceAll(/(--threads INT:1 to 4096=)\d+/g, '$1N').replaceAll(/supports [\w, -]*baseline/g, 'supports baseline');
const files = new Map();
const inputs = ['kernels/bulk.ptx', 'kernels/cluster.ptx', 'kernels/cuda.ptx', 'products/cutlass80_tf32_k264.safetensors',
  'products/nvjet_algo2_e4m3_k1024.safetensors', 'products/nvjet_flat_f16_k1024.safetensors'];
for (const place of inputs) {
  const bytes = fs.readFileSync(path.join(source, 'data', place)), name = path.basename(place);
  files.set(name, new Uint8Array(bytes));
  fs.writeFileSync(path.join(folder, name), bytes);
}

/** The first difference, with what is around it. */
function difference(name, expected, actual) {
  const a = Buffer.from(expected), b = Buffer.from(actual);
  if (a.equals(b)) return '';
  let at = 0;
  while (at < a.length && a[at] === b[at]) ++at;
  const part = (bytes) => JSON.stringify(bytes.subarray(Math.max(0, at - 60), at + 100).toString());
  return `\n    ${name} from byte ${at} on: native ${part(a)}, wasm ${part(b)}`;
}

let different = 0, count = 0;
const slowest = [];
const lines = fs.readFileSync(path.join(here, 'commands.txt'), 'utf8').split('\n').filter((line) => line && !line.startsWith('#'));
for (const line of lines) {
  const args = wordsOf(line), expected = runNative(args, folder), start = performance.now();
  const actual = run(module, args, files);
  slowest.push([performance.now() - start, line]);
  let text = expected.status === actual.code ? '' : `\n    exit code: native ${expected.status}, wasm ${actual.code}`;
  text += difference('standard output', withoutMachine(expected.stdout), withoutMachine(actual.out)) + difference('standard error', expected.stderr, actual.err);
  for (const [i, word] of args.entries()) {
    if (!['-o', '--svg'].includes(args[i - 1]) || word === '-') continue;
    const place = path.join(folder, word);
    text += difference(word, fs.existsSync(place) ? fs.readFileSync(place) : 'no file', files.get(word) ?? 'no file');
  }
  ++count;
  if (text) ++different;
  if (text) console.log(`DIFFERENT: bitmma ${line}${text}`);
}
slowest.sort((a, b) => b[0] - a[0]);
const median = slowest[Math.floor(slowest.length / 2)][0];
console.log(`${count - different} of ${count} command lines equal; a call takes ${median.toFixed(0)} ms (median), at most ${slowest[0][0].toFixed(0)} ms: ${slowest[0][1]}`);

const golden = new Map();
const data = path.join(source, 'data');
for (const entry of fs.readdirSync(path.join(data, 'golden'), {recursive: true, withFileTypes: true})) {
  if (!entry.isFile()) continue;
  const place = path.join(entry.path, entry.name);
  golden.set(path.relative(data, place), new Uint8Array(fs.readFileSync(place)));
}
const start = performance.now(), actual = run(module, ['verify', 'golden'], golden), seconds = (performance.now() - start) / 1000;
const expected = runNative(['verify', 'golden'], data);
const text = difference('standard output', expected.stdout, actual.out) + difference('standard error', expected.stderr, actual.err);
if (text || actual.code !== 0 || expected.status !== 0) {
  ++different;
  console.log(`DIFFERENT: bitmma verify golden, exit ${actual.code}, native ${expected.status}${text}`);
}
const vectors = [...golden.keys()].filter((name) => name.endsWith('.safetensors')).length;
console.log(`golden: ${vectors} files in ${seconds.toFixed(1)} s, ${(actual.memory / 2 ** 20).toFixed(0)} MiB: ${actual.out.trim().split('\n').pop()}`);
fs.rmSync(folder, {recursive: true});
process.exit(different === 0 && count > 0 && vectors > 0 ? 0 : 1);
