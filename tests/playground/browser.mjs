// SPDX-License-Identifier: MIT
// Headless Chromium over a pipe, by the Chrome DevTools Protocol, and a server of one folder.
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

const types = {'.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.wasm': 'application/wasm'};

/** Serves the files of `folder`; returns the server and its address. */
export async function serve(folder) {
  const server = http.createServer((request, response) => {
    const name = path.join(folder, decodeURIComponent(new URL(request.url, 'http://x').pathname));
    if (!name.startsWith(folder) || !fs.existsSync(name) || !fs.statSync(name).isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {'Content-Type': types[path.extname(name)] ?? 'application/octet-stream'});
    fs.createReadStream(name).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {server, address: `http://127.0.0.1:${server.address().port}`};
}

export class Browser {
  constructor(program) {
    this.profile = fs.mkdtempSync(path.join(os.tmpdir(), 'bitmma-browser-'));
    this.process = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-pipe', '--no-first-run',
      '--disable-background-networking', '--disable-dev-shm-usage', `--user-data-dir=${this.profile}`, 'about:blank'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    this.answers = new Map();
    this.listeners = [];
    this.next = 0;
    let rest = '';
    this.process.stdio[4].setEncoding('utf8').on('data', (text) => {
      const parts = (rest + text).split('\0');
      rest = parts.pop();
      for (const part of parts) this.take(JSON.parse(part));
    });
  }
  take(message) {
    if (message.id === undefined) {
      for (const listener of this.listeners) listener(message);
      return;
    }
    const {resolve, reject} = this.answers.get(message.id);
    this.answers.delete(message.id);
    if (message.error) reject(new Error(message.error.message));
    else resolve(message.result);
  }
  send(method, params = {}, sessionId = undefined) {
    const id = ++this.next;
    return new Promise((resolve, reject) => {
      this.answers.set(id, {resolve, reject});
      this.process.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
    });
  }
  async newPage() {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const page = new Page(this, sessionId);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network', 'DOM']) await page.send(`${domain}.enable`);
    return page;
  }
  async close() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.send('Browser.close').catch(() => {});
    const killed = setTimeout(() => this.process.kill('SIGKILL'), 5000);
    await ended;
    clearTimeout(killed);
    fs.rmSync(this.profile, {recursive: true, force: true, maxRetries: 10, retryDelay: 200});
  }
}

class Page {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    this.problems = [];  // errors of the page's own
    this.requests = new Set();
    browser.listeners.push(({method, params, sessionId}) => {
      if (sessionId !== session) return;
      if (method === 'Runtime.exceptionThrown') this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === 'Log.entryAdded' && params.entry.level === 'error') this.problems.push(`${params.entry.text} ${params.entry.url ?? ''}`);
      if (method === 'Network.requestWillBeSent') this.requests.add(params.request.url);
    });
  }
  send(method, params) { return this.browser.send(method, params, this.session); }
  /** The value of an expression in the page. */
  async evaluate(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true, userGesture: true});
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }
  /** Waits until the expression is true. */
  async until(expression, seconds = 30) {
    for (const end = Date.now() + 1000 * seconds; Date.now() < end;) {
      if (await this.evaluate(expression).catch(() => false)) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`not so after ${seconds} s: ${expression}\n${await this.evaluate('document.body.innerText').catch(() => '')}`);
  }
  async open(address) {
    await this.send('Page.navigate', {url: 'about:blank'});
    await this.send('Page.navigate', {url: address});
  }
  async size(width, height, {phone = false, dark = false} = {}) {
    await this.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: phone ? 2 : 1, mobile: phone});
    await this.send('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
  }
  async key(key) {
    for (const type of ['keyDown', 'keyUp']) await this.send('Input.dispatchKeyEvent', {type, key, code: key, ...(key === 'Enter' ? {text: '\r'} : {})});
  }
  async picture(file, whole = true) {
    const {data} = await this.send('Page.captureScreenshot', {format: 'png', captureBeyondViewport: whole});
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
  }
}
