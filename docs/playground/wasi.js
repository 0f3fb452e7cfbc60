// SPDX-License-Identifier: MIT
// The system of bitmma.wasm: WASI preview 1 over files in memory, as much of it as the program asks for. One call of `run`
// is one process: a new instance of the module, with its arguments, its standard input and the files.
//
//   const files = new Map([['kernel.ptx', bytes]]);
//   const {code, out, err} = run(module, ['decode', 'kernel.ptx'], files);   // files then has what the program wrote, too

const errors = {success: 0, badf: 8, exist: 20, inval: 28, isdir: 31, noent: 44, nosys: 52, notdir: 54, notempty: 55, spipe: 70};
const types = {unknown: 0, character: 2, folder: 3, file: 4};
const flags = {create: 1, directory: 2, exclusive: 4, truncate: 8, append: 1};
const root = 3;  // the descriptor of the only folder that the program is given

class Exit extends Error {
  constructor(code) {
    super(`exit ${code}`);
    this.code = code;
  }
}

/** The bytes of a file, with room for what is written next. */
class Contents {
  constructor(bytes) {
    this.room = bytes;
    this.size = bytes.length;
  }
  get bytes() { return this.room.subarray(0, this.size); }
  resize(size) {
    if (size > this.room.length) {
      const room = new Uint8Array(Math.max(size, 2 * this.room.length, 4096));
      room.set(this.bytes);
      this.room = room;
    }
    if (size > this.size) this.room.fill(0, this.size, size);
    this.size = size;
  }
  write(at, bytes) {
    if (at + bytes.length > this.size) this.resize(at + bytes.length);
    this.room.set(bytes, at);
  }
}

/** `a/./b/../c` as `a/c`: names have no slash in front. */
function plain(path) {
  const parts = [];
  for (const part of path.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return parts.join('/');
}

function joined(chunks) {
  const bytes = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

/**
 * Runs the program. `files` maps names to Uint8Array; the program's changes are in it afterwards. Returns the exit code, the text
 * of both streams, and the bytes of memory used. A trap of the program is thrown as it is.
 */
export function run(module, args, files, input = '') {
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const terminated = (text) => encoder.encode(text + '\0');
  const argv = ['bitmma', ...args].map(terminated), environment = [];
  const contents = new Map([...files].map(([name, bytes]) => [plain(name), new Contents(bytes)]));
  const folders = new Set(['', 'tmp']), inodes = new Map();
  const streams = [null, [], []];
  const now = BigInt(Date.now()) * 1000000n;
  let memory;

  const view = () => new DataView(memory.buffer);
  const bytesAt = (pointer, size) => new Uint8Array(memory.buffer, pointer, size);
  const textAt = (pointer, size) => decoder.decode(bytesAt(pointer, size));
  const setSize = (pointer, size) => view().setUint32(pointer, size, true);

  const standardInput = new Contents(encoder.encode(input));
  const opened = [{contents: standardInput, name: 'dev/stdin', at: 0}, {stream: 1}, {stream: 2}, {folder: ''}];
  const isFolder = (name) => folders.has(name) || [...contents.keys()].some((other) => other.startsWith(name + '/'));
  const inode = (name) => {
    if (!inodes.has(name)) inodes.set(name, BigInt(inodes.size + 10));
    return inodes.get(name);
  };
  const nameAt = (descriptor, pointer, size) => plain(`${opened[descriptor].folder}/${textAt(pointer, size)}`);

  function writeStrings(strings, pointers, buffer) {
    for (const [i, bytes] of strings.entries()) {
      setSize(pointers + 4 * i, buffer);
      bytesAt(buffer, bytes.length).set(bytes);
      buffer += bytes.length;
    }
    return errors.success;
  }
  function writeSizes(strings, count, size) {
    setSize(count, strings.length);
    setSize(size, strings.reduce((sum, bytes) => sum + bytes.length, 0));
    return errors.success;
  }
  function writeStatus(pointer, type, name, size) {
    bytesAt(pointer, 64).fill(0);
    const status = view();
    status.setBigUint64(pointer, 1n, true);
    status.setBigUint64(pointer + 8, inode(name), true);
    status.setUint8(pointer + 16, type);
    status.setBigUint64(pointer + 24, 1n, true);
    status.setBigUint64(pointer + 32, BigInt(size), true);
    for (const time of [40, 48, 56]) status.setBigUint64(pointer + time, now, true);
    return errors.success;
  }
  /** The buffers of a list of `count` pointers and sizes. */
  function buffers(list, count) {
    const memoryView = view();
    return Array.from({length: count}, (_, i) => bytesAt(memoryView.getUint32(list + 8 * i, true), memoryView.getUint32(list + 8 * i + 4, true)));
  }
  function readAt(file, at, list, count, done) {
    let total = 0;
    for (const buffer of buffers(list, count)) {
      const part = file.contents.bytes.subarray(at + total, at + total + buffer.length);
      buffer.set(part);
      total += part.length;
    }
    setSize(done, total);
    return total;
  }
  function writeAt(file, at, list, count, done) {
    let total = 0;
    for (const buffer of buffers(list, count)) {
      file.contents.write(at + total, buffer);
      total += buffer.length;
    }
    setSize(done, total);
    return total;
  }

  const system = {
    args_get: (pointers, buffer) => writeStrings(argv, pointers, buffer),
    args_sizes_get: (count, size) => writeSizes(argv, count, size),
    environ_get: (pointers, buffer) => writeStrings(environment, pointers, buffer),
    environ_sizes_get: (count, size) => writeSizes(environment, count, size),
    clock_res_get(_, pointer) {
      view().setBigUint64(pointer, 1000n, true);
      return errors.success;
    },
    clock_time_get(clock, _, pointer) {
      const milliseconds = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(pointer, BigInt(Math.round(milliseconds * 1e6)), true);
      return errors.success;
    },
    random_get(pointer, size) {
      const most = 65536;  // of one call
      for (let at = 0; at < size; at += most) crypto.getRandomValues(bytesAt(pointer + at, Math.min(most, size - at)));
      return errors.success;
    },
    proc_exit(code) { throw new Exit(code); },
    sched_yield: () => errors.success,
    /** All that can be waited for is there. */
    poll_oneoff(_in, _out, count, done) {
      setSize(done, count);
      return errors.success;
    },

    fd_prestat_get(descriptor, pointer) {
      if (descriptor !== root) return errors.badf;
      view().setUint8(pointer, 0);
      setSize(pointer + 4, 1);
      return errors.success;
    },
    fd_prestat_dir_name(_, pointer, size) {
      bytesAt(pointer, size).set(encoder.encode('/').subarray(0, size));
      return errors.success;
    },
    fd_fdstat_get(descriptor, pointer) {
      const file = opened[descriptor];
      if (!file) return errors.badf;
      bytesAt(pointer, 24).fill(0);
      // A stream is a pipe, which has no type of its own: the program prints as into a file, without colour.
      view().setUint8(pointer, file.contents ? types.file : file.folder !== undefined ? types.folder : types.unknown);
      for (const rights of [8, 16]) view().setBigUint64(pointer + rights, ~0n, true);
      return errors.success;
    },
    fd_filestat_get(descriptor, pointer) {
      const file = opened[descriptor];
      if (!file) return errors.badf;
      if (file.contents) return writeStatus(pointer, types.file, file.name, file.contents.size);
      if (file.folder !== undefined) return writeStatus(pointer, types.folder, file.folder, 0);
      return writeStatus(pointer, types.character, `dev/${file.stream}`, 0);
    },
    fd_filestat_set_size(descriptor, size) {
      opened[descriptor].contents.resize(Number(size));
      return errors.success;
    },
    fd_close(descriptor) {
      if (!opened[descriptor]) return errors.badf;
      opened[descriptor] = null;
      return errors.success;
    },
    fd_seek(descriptor, offset, whence, done) {
      const file = opened[descriptor];
      if (!file) return errors.badf;
      if (!file.contents) return errors.spipe;
      file.at = Number(offset) + [0, file.at, file.contents.size][whence];
      view().setBigUint64(done, BigInt(file.at), true);
      return errors.success;
    },
    fd_tell: (descriptor, done) => system.fd_seek(descriptor, 0n, 1, done),
    fd_read(descriptor, list, count, done) {
      const file = opened[descriptor];
      if (!file) return errors.badf;
      if (!file.contents) return errors.isdir;
      file.at += readAt(file, file.at, list, count, done);
      return errors.success;
    },
    fd_pread(descriptor, list, count, offset, done) {
      readAt(opened[descriptor], Number(offset), list, count, done);
      return errors.success;
    },
    fd_write(descriptor, list, count, done) {
      const file = opened[descriptor];
      if (!file) return errors.badf;
      if (file.contents) {
        if (file.appends) file.at = file.contents.size;
        file.at += writeAt(file, file.at, list, count, done);
        return errors.success;
      }
      if (file.stream === undefined) return errors.isdir;
      const chunk = joined(buffers(list, count));
      streams[file.stream].push(chunk);
      setSize(done, chunk.length);
      return errors.success;
    },
    fd_pwrite(descriptor, list, count, offset, done) {
      writeAt(opened[descriptor], Number(offset), list, count, done);
      return errors.success;
    },
    fd_readdir(descriptor, pointer, size, cookie, done) {
      const prefix = opened[descriptor].folder === '' ? '' : opened[descriptor].folder + '/';
      const below = [...contents.keys(), ...folders].filter((name) => name !== '' && name.startsWith(prefix));
      const names = [...new Set(below.map((name) => name.slice(prefix.length).split('/')[0]))].filter((name) => name !== '').sort();
      let at = 0;
      for (let i = Number(cookie); i < names.length && at < size; ++i) {
        const name = encoder.encode(names[i]), entry = new Uint8Array(24 + name.length), fields = new DataView(entry.buffer);
        fields.setBigUint64(0, BigInt(i + 1), true);
        fields.setBigUint64(8, inode(prefix + names[i]), true);
        fields.setUint32(16, name.length, true);
        fields.setUint8(20, isFolder(prefix + names[i]) ? types.folder : types.file);
        entry.set(name, 24);
        const part = entry.subarray(0, size - at);
        bytesAt(pointer + at, part.length).set(part);
        at += part.length;
      }
      setSize(done, at);
      return errors.success;
    },

    path_open(folder, _look, pointer, size, how, _rights, _inherited, fdflags, done) {
      const name = nameAt(folder, pointer, size);
      let file;
      if (name === 'dev/stdin') file = {contents: standardInput, name, at: 0};
      else if (name === 'dev/stdout' || name === 'dev/stderr') file = {stream: name === 'dev/stdout' ? 1 : 2};
      else if (isFolder(name)) file = {folder: name};
      else if (how & flags.directory) return contents.has(name) ? errors.notdir : errors.noent;
      else {
        if (contents.has(name) && how & flags.create && how & flags.exclusive) return errors.exist;
        if (!contents.has(name) && !(how & flags.create)) return errors.noent;
        if (!isFolder(name.split('/').slice(0, -1).join('/'))) return errors.noent;
        // What the page has given stays as it is until the program is done.
        if (!contents.has(name) || how & flags.truncate) contents.set(name, new Contents(new Uint8Array(0)));
        file = {contents: contents.get(name), name, at: 0, appends: (fdflags & flags.append) !== 0};
      }
      setSize(done, opened.push(file) - 1);
      return errors.success;
    },
    path_filestat_get(folder, _follow, pointer, size, out) {
      const name = nameAt(folder, pointer, size);
      if (name === 'dev/stdin') return writeStatus(out, types.file, name, standardInput.size);
      if (name === 'dev/stdout') return writeStatus(out, types.character, 'dev/1', 0);
      if (name === 'dev/stderr') return writeStatus(out, types.character, 'dev/2', 0);
      if (contents.has(name)) return writeStatus(out, types.file, name, contents.get(name).size);
      return isFolder(name) ? writeStatus(out, types.folder, name, 0) : errors.noent;
    },
    path_create_directory(folder, pointer, size) {
      folders.add(nameAt(folder, pointer, size));
      return errors.success;
    },
    path_remove_directory: (folder, pointer, size) => (folders.delete(nameAt(folder, pointer, size)) ? errors.success : errors.noent),
    path_unlink_file: (folder, pointer, size) => (contents.delete(nameAt(folder, pointer, size)) ? errors.success : errors.noent),
    path_rename(folder, pointer, size, toFolder, toPointer, toSize) {
      const from = nameAt(folder, pointer, size), to = nameAt(toFolder, toPointer, toSize);
      if (!contents.has(from)) return errors.noent;
      contents.set(to, contents.get(from));
      if (to !== from) contents.delete(from);
      return errors.success;
    },
    path_readlink(folder, pointer, size) {
      return contents.has(nameAt(folder, pointer, size)) ? errors.inval : errors.noent;  // there are no links
    },
  };
  const idle = ['fd_fdstat_set_flags', 'fd_sync', 'fd_datasync', 'fd_advise', 'fd_allocate', 'fd_filestat_set_times', 'path_filestat_set_times'];
  for (const name of idle) system[name] = () => errors.success;
  for (const {name} of WebAssembly.Module.imports(module)) system[name] ??= () => errors.nosys;

  const instance = new WebAssembly.Instance(module, {wasi_snapshot_preview1: system});
  memory = instance.exports.memory;
  let code = 0;
  try {
    instance.exports._start();
  } catch (end) {
    if (!(end instanceof Exit)) throw end;
    code = end.code;
  }
  files.clear();
  for (const [name, file] of contents) files.set(name, file.bytes.slice());
  const text = (chunks) => decoder.decode(joined(chunks));
  return {code, out: text(streams[1]), err: text(streams[2]), memory: memory.buffer.byteLength};
}
