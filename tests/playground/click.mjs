// SPDX-License-Identifier: MIT
// A reader's way through the playground in headless Chromium: every tab, an element that is clicked, Stop, links, files, the
// keyboard, a phone, dark mode. What the page shows is compared with the native program. Screenshots of each go into a folder.
//   node click.mjs PAGE_FOLDER bitmma chromium SCREENSHOTS
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {Browser, serve} from './browser.mjs';
import {wordsOf} from '../../docs/playground/words.js';

const [folder, native, chromium, pictures] = process.argv.slice(2).map((name, i) => (i === 2 ? name : path.resolve(name)));
fs.mkdirSync(pictures, {recursive: true});
const {server, address} = await serve(folder);
const browser = new Browser(chromium);
const steps = [];
const step = async (name, body) => {
  const began = performance.now();
  await body();
  steps.push(`${name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
};

// In the page.
const isDone = "document.body.dataset.answered && document.querySelectorAll('.answer').length > 0 && document.getElementById('stop').hidden && status_text().startsWith('bitmma')";
const helpers = `
  window.status_text = () => document.getElementById('status').textContent;
  window.fill = (name, value) => {
    const field = document.getElementById('field-' + name);
    if (field.type === 'checkbox') field.checked = value; else field.value = value;
    field.dispatchEvent(new Event('input', {bubbles: true}));
    field.dispatchEvent(new Event('change', {bubbles: true}));
  };
  window.text_of = (title) => [...document.querySelectorAll('.answer')].find((answer) => answer.querySelector('h2')?.textContent.startsWith(title))?.innerText ?? '';
`;
let page;
async function open(hash) {
  page = await browser.newPage();
  await page.size(1280, 900);
  await page.send('Page.addScriptToEvaluateOnNewDocument', {source: helpers});
  await page.open(`${address}/index.html${hash}`);
  await page.until(isDone);
}
/** Does something, and waits for the answer to it. */
async function ask(expression) {
  const before = await page.evaluate('document.body.dataset.answered');
  await page.evaluate(expression);
  await page.until(`document.body.dataset.answered !== ${JSON.stringify(before)} && ${isDone}`);
}
const choose = (tab) => ask(`document.getElementById('tab-${tab}').click()`);
const shown = (title) => page.evaluate(`text_of(${JSON.stringify(title)})`);
const picturesAreDrawn = () => page.until("[...document.images].every((image) => image.complete && image.naturalWidth > 100) && document.images.length > 0");

/** Every text of the page that needs no file is the native program's. */
async function compareWithNative() {
  const answers = await page.evaluate(`[...document.querySelectorAll('.answer')].filter((answer) => answer.querySelector('pre')).map((answer) =>
    [answer.querySelector('.command code').textContent, answer.querySelector('pre').textContent])`);
  let count = 0;
  for (const [line, text] of answers) {
    const args = wordsOf(line);
    if (args.some((word) => /\.(safetensors|ptx|svg)$/.test(word))) continue;
    const answer = spawnSync(native, args, {encoding: 'utf8', cwd: os.tmpdir(), env: {}});
    assert.equal(text, answer.stdout + answer.stderr, line);
    ++count;
  }
  return count;
}

let failed = false, compared = 0;
try {
  await step('descriptor', async () => {
    await open('');
    assert.match(await shown('Fields'), /Swizzle<3,4,3>/);
    await picturesAreDrawn();
    compared += await compareWithNative();
    await page.picture(path.join(pictures, 'descriptor_desktop.png'));
    await ask("fill('d', '0x4000004000010001')");
    assert.equal(await page.evaluate('location.hash'), '#descriptor?d=0x4000004000010001');
    compared += await compareWithNative();
    await ask("fill('from', 'fields')");
    assert.match(await shown('Encoded'), /0x4000004000010000/);
    compared += await compareWithNative();
    await ask("fill('lbo', '12')");
    assert.match(await page.evaluate("document.querySelector('.answer.refused pre').textContent"), /12/);
    await page.picture(path.join(pictures, 'refused_desktop.png'));
  });

  await step('instruction', async () => {
    await choose('instruction');
    await picturesAreDrawn();
    assert.match(await shown('Evidence'), /sm_90 sm_90a\s+f32, f16, f16\s+F = 25, RZ-23, floor -133\s+measured on an NVIDIA H200/);
    assert.doesNotMatch(await shown('Evidence'), /RNE-10/);
    await page.evaluate("fill('find', 'wgmma e4m3 n64')");
    await page.until("document.querySelector('#found select')?.options.length > 0");
    await ask("{const list = document.querySelector('#found select'); list.selectedIndex = 0; list.dispatchEvent(new Event('change', {bubbles: true}));}");
    assert.match(await page.evaluate("document.getElementById('field-i').value"), /^wgmma.*n64.*e4m3/);
    assert.match(await shown('Evidence'), /sm_90a/);
    await picturesAreDrawn();
    compared += await compareWithNative();
    await page.picture(path.join(pictures, 'instruction_desktop.png'));
  });

  await step('compute', async () => {
    await choose('compute');
    await page.until("document.querySelectorAll('.grid td button').length === 1024");
    await ask("document.querySelectorAll('.grid tbody tr')[9].querySelectorAll('button')[2].click()");
    assert.match(await shown('How D[9, 2]'), /row 9, col 2/);
    assert.match(await shown('How D[9, 2]'), /D\[9, 2\] = \S+, code 0x[0-9a-f]+/);
    assert.match(await page.evaluate('location.hash'), /row=9&col=2/);
    await page.until("document.activeElement.ariaPressed === 'true'");
    await page.key('ArrowDown');
    await page.key('ArrowRight');
    const before = await page.evaluate('document.body.dataset.answered');
    await page.key('Enter');
    await page.until(`document.body.dataset.answered !== ${JSON.stringify(before)} && ${isDone} && text_of('How D[10, 3]') !== ''`);
    await page.picture(path.join(pictures, 'compute_desktop.png'));
  });

  await step('scales, Tensor Memory, layouts, functions', async () => {
    await choose('scales');
    await picturesAreDrawn();
    compared += await compareWithNative();
    await page.picture(path.join(pictures, 'scales_desktop.png'));
    await choose('tmem');
    await picturesAreDrawn();
    compared += await compareWithNative();
    await ask("fill('ask', 'how many columns')");
    assert.match(await shown('Columns'), /tcgen05.alloc/);
    compared += await compareWithNative();
    await page.picture(path.join(pictures, 'tmem_desktop.png'));
    await choose('layout');
    await picturesAreDrawn();
    compared += await compareWithNative();
    await page.picture(path.join(pictures, 'layout_desktop.png'));
    await ask("fill('op', 'composition')");
    compared += await compareWithNative();
    await choose('math');
    assert.match(await shown('Result'), /MUFU|ex2/);
    compared += await compareWithNative();
    await page.picture(path.join(pictures, 'math_desktop.png'));
  });

  await step('PTX', async () => {
    await choose('ptx');
    assert.match(await shown('Memory after the run'), /argument 1/);
    await page.picture(path.join(pictures, 'ptx_desktop.png'));
    await page.evaluate("fill('text', 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};')");
    await ask("fill('do', 'decode')");
    assert.match(await shown('Decoded'), /one warp/);
    compared += await compareWithNative();
  });

  await step('files', async () => {
    const cases = path.join(pictures, 'cases.safetensors');
    spawnSync(native, ['golden', 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32', '--seed', '5', '-o', cases]);
    await page.evaluate("document.getElementById('tab-files').click()");  // no answer before there are files
    const {root} = await page.send('DOM.getDocument');
    const {nodeId} = await page.send('DOM.querySelector', {nodeId: root.nodeId, selector: '.drop input'});
    await page.send('DOM.setFileInputFiles', {nodeId, files: [cases]});
    await page.until(`${isDone} && text_of('Recomputed').includes('match')`);
    fs.rmSync(cases);
    await page.evaluate("for (const name of ['expected', 'actual']) fill(name, '')");
    await ask("[...document.querySelectorAll('.drop button')][0].click()");
    assert.match(await shown('Differences'), /differ/);
    assert.match(await shown('Which mistake'), /C is not added/);
    await page.picture(path.join(pictures, 'files_desktop.png'));
  });

  await step('command line and Stop', async () => {
    await choose('command');
    compared += await compareWithNative();
    await page.evaluate("fill('line', 'bench --seconds 20')");
    await page.until("!document.getElementById('stop').hidden");
    await page.evaluate("document.getElementById('stop').click()");
    await page.until("status_text() === 'Stopped.'");
    await ask("fill('line', \"golden wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --cases 1 -o mine.safetensors\")");
    await ask("fill('line', 'explain mine.safetensors --row 1 --col 1')");
    assert.match(await page.evaluate("document.querySelector('.answer pre').textContent"), /rule: F = 25/);
    await page.picture(path.join(pictures, 'command_desktop.png'));
  });

  await step('links and keyboard', async () => {
    const problems = page.problems;
    await open('#math?f=rcp.approx.ftz.f32&x=3&explain=false');
    assert.match(await page.evaluate("document.querySelector('.answer pre').textContent"), /^rcp.approx.ftz.f32 /);
    await page.evaluate("document.getElementById('tab-math').focus()");
    await page.key('ArrowLeft');
    await page.until(`document.activeElement.id === 'tab-ptx' && ${isDone}`);
    await page.key('Home');
    await page.until(`document.activeElement.id === 'tab-descriptor' && ${isDone}`);
    page.problems.push(...problems);
  });

  await step('a phone, dark and light', async () => {
    for (const dark of [true, false]) {
      await page.size(390, 844, {phone: true, dark});
      for (const tab of ['instruction', 'compute', 'scales', 'tmem', 'layout', 'ptx', 'math', 'command', 'descriptor']) {
        await choose(tab);
        assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= 390, `${tab} is wider than a phone`);
        if (['descriptor', 'compute', 'instruction', 'ptx'].includes(tab)) await page.picture(path.join(pictures, `${tab}_phone_${dark ? 'dark' : 'light'}.png`));
      }
    }
    await page.size(1280, 900, {dark: true});
    await choose('compute');
    await page.picture(path.join(pictures, 'compute_desktop_dark.png'));
  });

  await step('nothing from elsewhere, no errors, and a page without its program', async () => {
    assert.deepEqual([...page.requests].filter((url) => !url.startsWith(address) && !/^(blob|data|about):/.test(url)), []);
    assert.deepEqual(page.problems, []);
    const bare = fs.mkdtempSync(path.join(os.tmpdir(), 'bitmma-page-'));
    fs.cpSync(folder, bare, {recursive: true, filter: (name) => !name.endsWith('.wasm')});
    const other = await serve(bare);
    page = await browser.newPage();
    await page.open(`${other.address}/index.html`);
    await page.until("document.getElementById('status').textContent.includes('tools/playground builds it')");
    other.server.close();
    fs.rmSync(bare, {recursive: true});
  });
} catch (error) {
  failed = true;
  console.log(`FAILED: ${error.message}`);
  if (page) await page.picture(path.join(pictures, 'failed.png')).catch(() => {});
}
await browser.close();
server.close();
console.log(steps.join('\n'));
console.log(`${compared} answers in Chromium equal those of the native program; screenshots: ${pictures}`);
process.exit(failed || compared === 0 ? 1 : 0);
