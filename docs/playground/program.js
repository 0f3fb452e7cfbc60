// SPDX-License-Identifier: MIT
// The program in a worker: commands wait for each other, and stop() ends the one that runs and those that wait.

/** The compiled module. Throws an Error whose text tells a reader what to do if the page lacks it. */
export async function load(address) {
  if (location.protocol === 'file:')
    throw new Error('Browsers load programs from servers only: run `python3 -m http.server` in this folder and open http://127.0.0.1:8000/');
  const response = await fetch(address);
  if (!response.ok)
    throw new Error('The program bitmma.wasm is not beside this page. In a checkout, tools/playground builds it and tools/docs copies it here.');
  return WebAssembly.compile(await response.arrayBuffer());
}

export class Program {
  constructor(module) {
    this.module = module;
    this.waiting = new Map();
    this.next = 0;
    this.begin();
  }
  begin() {
    this.worker = new Worker(new URL('worker.js', import.meta.url), {type: 'module'});
    this.worker.postMessage(this.module);
    this.worker.onmessage = ({data}) => {
      const {resolve} = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      resolve(data);
    };
  }
  get isBusy() { return this.waiting.size > 0; }
  /** Resolves to the exit code, the text of both streams, and the files as the program left them. */
  run(args, files = new Map(), input = '') {
    const id = ++this.next;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, {resolve, reject});
      this.worker.postMessage({id, args, files, input});
    });
  }
  stop() {
    this.worker.terminate();
    for (const {reject} of this.waiting.values()) reject(new Error('stopped'));
    this.waiting.clear();
    this.begin();
  }
}
