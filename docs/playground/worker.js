// SPDX-License-Identifier: MIT
// Runs one command after another beside the page, which ends this worker to stop one. The first message is the module.
import {run} from './wasi.js';

let program;

onmessage = ({data}) => {
  if (data instanceof WebAssembly.Module) {
    program = data;
    return;
  }
  const {id, args, files, input} = data, began = performance.now();
  let answer;
  try {
    answer = run(program, args, files, input);
  } catch (trap) {  // out of memory or stack
    answer = {code: 2, out: '', err: `error: the program ended: ${trap.message}\n`};
  }
  postMessage({id, ...answer, files, milliseconds: performance.now() - began});
};
