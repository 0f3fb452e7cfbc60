// SPDX-License-Identifier: MIT
// What the page asks: a row a tab, with its fields and the commands that answer. A field is
//   {name, label, value, [options | lines | check], [size], [wide], [list], [when(values)], [hint]}
// `answer(values, ask)` calls ask(args, {as, title, files, input}) for each command. `as` is how its output is shown: text, picture
// (the file that --svg names), grid (D, with elements to click), evidence (rows of `list --json`), or none. ask returns what the
// program gave.

const targets = ['', 'sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_89', 'sm_90', 'sm_90a', 'sm_100a', 'sm_103a', 'sm_107a', 'sm_120a'];
const distributions = ['normal', 'wide', 'narrow', 'cancel', 'ties', 'special', 'subnormal', 'integers', 'bits'];
const usual = 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32';

/** ['--flag', value] for the fields that have a value. */
const flagsOf = (values, names) =>
  Object.entries(names).flatMap(([flag, name]) => (values[name] === '' || values[name] === false ? [] : values[name] === true ? [flag] : [flag, values[name]]));
const wordsIn = (text) => text.trim().split(/\s+/).filter((word) => word !== '');

const kernel = `.version 8.0
.target sm_90a
.address_size 64

// y[i] = exp2(x[i]) * a + y[i], with the special function unit of a GPU.
.visible .entry exp2_axpy(.param .u64 x, .param .u64 y, .param .f32 a)
{
  .reg .b64 %rd<6>;
  .reg .b32 %r<2>;
  .reg .f32 %f<6>;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd1, %r1, 4;
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [y];
  ld.param.f32 %f1, [a];
  add.s64 %rd4, %rd2, %rd1;
  add.s64 %rd5, %rd3, %rd1;
  ld.global.f32 %f2, [%rd4];
  ld.global.f32 %f3, [%rd5];
  ex2.approx.f32 %f4, %f2;
  fma.rn.f32 %f5, %f4, %f1, %f3;
  st.global.f32 [%rd5], %f5;
  ret;
}
`;

export const tabs = [
  {
    id: 'descriptor',
    title: 'Descriptor',
    intro: 'What does a 64-bit shared-memory descriptor mean: its fields, what is wrong with it, and which element lies at which address. Or make one from its fields.',
    fields: [
      {name: 'from', label: 'From', value: 'hex', options: ['hex', 'fields']},
      {name: 'd', label: 'Descriptor', value: '0x4000004000010000', size: 20, when: (v) => v.from === 'hex'},
      {name: 'start', label: 'Start, bytes', value: '0', size: 8, when: (v) => v.from === 'fields'},
      {name: 'lbo', label: 'LBO, bytes', value: '16', size: 8, when: (v) => v.from === 'fields'},
      {name: 'sbo', label: 'SBO, bytes', value: '1024', size: 8, when: (v) => v.from === 'fields'},
      {name: 'swizzle', label: 'Swizzle', value: '128', options: ['none', '32', '64', '128', '128-atom32'], when: (v) => v.from === 'fields'},
      {name: 'base', label: 'Base offset', value: '', size: 3, when: (v) => v.from === 'fields'},
      {name: 'target', label: 'GPU', value: 'sm_90a', options: ['sm_90a', 'sm_100a', 'sm_103a', 'sm_107a']},
      {name: 'major', label: 'Major', value: 'k', options: ['k', 'mn']},
      {name: 'rows', label: 'Rows (M or N)', value: '64', size: 5},
      {name: 'cols', label: 'Columns (K)', value: '16', size: 5},
      {name: 'bits', label: 'Bits of an element', value: '16', options: ['4', '8', '16', '32']},
    ],
    async answer(v, ask) {
      let descriptor = v.d.trim();
      if (v.from === 'fields') {
        const flags = flagsOf(v, {'--start': 'start', '--lbo': 'lbo', '--sbo': 'sbo', '--swizzle': 'swizzle', '--base-offset': 'base', '--target': 'target'});
        const encoded = await ask(['encode', 'descriptor', ...flags], {title: 'Encoded'});
        if (encoded.code !== 0) return;
        descriptor = encoded.out.match(/0x[0-9a-fA-F]+/)[0];
      }
      const decoded = await ask(['decode', descriptor, '--target', v.target, '--major', v.major], {title: 'Fields'});
      if (decoded.code === 2) return;
      const flags = flagsOf(v, {'--target': 'target', '--major': 'major', '--rows': 'rows', '--cols': 'cols', '--element-bits': 'bits'});
      await ask(['layout', 'smem', '--descriptor', descriptor, ...flags, '--svg', 'descriptor.svg'], {title: 'Addresses', as: 'picture'});
    },
  },
  {
    id: 'instruction',
    title: 'Instruction',
    intro: 'Which thread holds which element, is the instruction legal, and how sure is its arithmetic on each GPU.',
    fields: [
      {name: 'find', label: 'Find, by words such as wgmma e4m3', value: '', size: 26, transient: true},
      {name: 'i', label: 'Instruction, or a CUTLASS atom', value: usual, wide: true, list: 'mnemonics'},
      {name: 'operand', label: 'Operand', value: 'd', options: ['a', 'b', 'd', 'metadata', 'scale_a', 'scale_b']},
      {name: 'target', label: 'GPU', value: '', options: targets},
    ],
    async answer(v, ask) {
      const instruction = v.i.trim(), target = flagsOf(v, {'--target': 'target'});
      const decoded = await ask(['decode', instruction, ...target], {title: 'Legality and arithmetic'});
      if (decoded.code === 2) return;
      if (/^tcgen05\.mma/.test(instruction)) {
        const operand = v.operand === 'a' || v.operand === 'metadata' ? v.operand : 'd';
        await ask(['layout', 'tmem', '--operand', operand, '--svg', 'tmem.svg'], {title: `${operand.toUpperCase()} in Tensor Memory, M = 128`, as: 'picture'});
      } else {
        await ask(['layout', 'fragment', '--instruction', instruction, '--operand', v.operand, ...target, '--svg', 'fragment.svg'],
          {title: `Registers of ${v.operand.toUpperCase()}`, as: 'picture'});
      }
      await ask(['list', '--json'], {title: 'Evidence for its arithmetic, by GPU', as: 'evidence', instruction});
    },
  },
  {
    id: 'compute',
    title: 'Compute',
    intro: 'Random operands from a seed, and D bit for bit. Click an element of D: every product, what was cut off, the rounding, and what other rules would give.',
    fields: [
      {name: 'i', label: 'Instruction', value: 'wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3', wide: true, list: 'mnemonics'},
      {name: 'seed', label: 'Seed', value: '7', size: 6},
      {name: 'distribution', label: 'Operands', value: 'normal', options: distributions},
      {name: 'target', label: 'GPU', value: '', options: targets},
      {name: 'row', label: 'Row', value: '3', size: 4},
      {name: 'col', label: 'Column', value: '5', size: 4},
      {name: 'more', label: 'Further flags of golden, such as --n 64 --a e2m1', value: '', size: 30},
    ],
    async answer(v, ask) {
      const file = 'case.safetensors';
      const flags = flagsOf(v, {'--seed': 'seed', '--distribution': 'distribution', '--target': 'target'});
      const made = await ask(['golden', v.i.trim(), '--cases', '1', ...flags, ...wordsIn(v.more), '-o', file], {title: 'Operands'});
      if (made.code !== 0) return;
      await ask(['simulate', file, '--rows', '64', '--cols', '32'], {title: 'D: click an element', as: 'grid', files: made.files});
      await ask(['explain', file, '--row', v.row, '--col', v.col], {title: `How D[${v.row}, ${v.col}] comes about`, as: 'explained', files: made.files});
    },
  },
  {
    id: 'scales',
    title: 'Scales',
    intro: 'Where block scales (MXFP8, MXFP4, NVFP4) are: in a row-major matrix, in the image of 128 x 4 tiles in shared memory, and in Tensor Memory.',
    fields: [
      {name: 'operand', label: 'Of', value: 'a', options: ['a', 'b']},
      {name: 'rows', label: 'Rows', value: '128', size: 6},
      {name: 'blocks', label: 'Blocks along K', value: '4', size: 6},
      {name: 'group', label: 'CTAs', value: '1', options: ['1', '2']},
      {name: 'id', label: 'Byte of the first scale', value: '0', options: ['0', '1', '2', '3']},
      {name: 'row', label: 'One scale: row', value: '', size: 5},
      {name: 'block', label: '... and block', value: '', size: 5},
      {name: 'image', label: 'Image in shared memory', value: false, check: true},
    ],
    async answer(v, ask) {
      const flags = flagsOf(v, {'--operand': 'operand', '--rows': 'rows', '--blocks': 'blocks', '--cta-group': 'group', '--id': 'id'});
      const place = v.row !== '' && v.block !== '' ? ['--row', v.row, '--block', v.block] : [];
      if (place.length) await ask(['layout', 'scales', ...flags, ...place], {title: `The scale of row ${v.row}, block ${v.block}`});
      const image = v.image ? ['--image'] : [];
      await ask(['layout', 'scales', ...flags, ...image], {title: v.image ? 'Image' : 'Rules'});
      await ask(['layout', 'scales', ...flags, ...image, '--svg', 'scales.svg'], {title: 'Picture', as: 'picture'});
    },
  },
  {
    id: 'tmem',
    title: 'Tensor Memory',
    intro: 'Where D of tcgen05.mma is in Tensor Memory, and A or the metadata of a sparse A; and which columns a kernel has to allocate.',
    fields: [
      {name: 'ask', label: 'Question', value: 'where', options: ['where', 'how many columns']},
      {name: 'operand', label: 'Operand', value: 'd', options: ['d', 'a', 'metadata'], when: (v) => v.ask === 'where'},
      {name: 'i', label: 'Instruction', value: 'tcgen05.mma.cta_group::1.kind::f16', wide: true, list: 'mnemonics', when: (v) => v.ask !== 'where'},
      {name: 'm', label: 'M', value: '128', size: 5},
      {name: 'n', label: 'N', value: '64', size: 5},
      {name: 'group', label: 'CTAs', value: '1', options: ['1', '2'], when: (v) => v.ask === 'where'},
      {name: 'ws', label: '.ws', value: false, check: true, when: (v) => v.ask === 'where'},
      {name: 'row', label: 'One element: row', value: '', size: 5, when: (v) => v.ask === 'where'},
      {name: 'col', label: '... and column', value: '', size: 5, when: (v) => v.ask === 'where'},
      {name: 'accumulators', label: 'D at a time', value: '1', size: 4, when: (v) => v.ask !== 'where'},
      {name: 'blocks', label: 'Steps of K at a time', value: '', size: 4, when: (v) => v.ask !== 'where'},
      {name: 'ctas', label: 'CTAs on an SM', value: '1', size: 4, when: (v) => v.ask !== 'where'},
    ],
    async answer(v, ask) {
      if (v.ask !== 'where') {
        const flags = flagsOf(v, {'--instruction': 'i', '--m': 'm', '--n': 'n', '--accumulators': 'accumulators', '--k-blocks': 'blocks', '--ctas': 'ctas'});
        const plan = await ask(['layout', 'tmem-plan', ...flags], {title: 'Columns'});
        if (plan.code !== 2) await ask(['layout', 'tmem-plan', ...flags, '--svg', 'plan.svg'], {title: 'Picture', as: 'picture'});
        return;
      }
      const flags = flagsOf(v, {'--operand': 'operand', '--m': 'm', '--n': 'n', '--cta-group': 'group', '--ws': 'ws'});
      if (v.row !== '' && v.col !== '') await ask(['layout', 'tmem', ...flags, '--row', v.row, '--col', v.col], {title: `Element ${v.row}, ${v.col}`});
      const text = await ask(['layout', 'tmem', ...flags], {title: 'Lanes and columns'});
      if (text.code !== 2) await ask(['layout', 'tmem', ...flags, '--svg', 'tmem.svg'], {title: 'Picture', as: 'picture'});
    },
  },
  {
    id: 'layout',
    title: 'Layouts',
    intro: "CuTe's layouts: which element is at which byte of shared memory, and the layout algebra, with the results of CuTe 4.7.",
    fields: [
      {name: 'op', label: 'Operation', value: 'show', options: ['show', 'composition', 'complement', 'coalesce', 'logical_divide', 'zipped_divide', 'tiled_divide',
        'flat_divide', 'logical_product', 'zipped_product', 'tiled_product', 'flat_product', 'blocked_product', 'raked_product', 'right_inverse', 'left_inverse']},
      {name: 'a', label: 'Layout', value: 'Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))', wide: true},
      {name: 'b', label: 'Second operand', value: '(4,3):(3,1)', size: 30, when: (v) => !['show', 'right_inverse', 'left_inverse'].includes(v.op)},
    ],
    async answer(v, ask) {
      if (v.op === 'show') {
        const text = await ask(['layout', '--cute', v.a.trim()], {title: 'Map'});
        if (text.code === 0) await ask(['layout', '--cute', v.a.trim(), '--svg', 'layout.svg'], {title: 'Picture', as: 'picture'});
        return;
      }
      const second = this.fields[2].when(v) && v.b.trim() !== '' ? [v.b.trim()] : [];
      await ask(['layout', 'algebra', v.op, v.a.trim(), ...second], {title: 'Result'});
    },
  },
  {
    id: 'ptx',
    title: 'PTX',
    intro: 'Paste a statement, a kernel of PTX, inline PTX of CUDA C++ or a SASS listing to see what its matrix instructions do; or run a small kernel of PTX with arguments.',
    fields: [
      {name: 'text', label: 'PTX, CUDA C++ or SASS', value: kernel, lines: 14, wide: true},
      {name: 'do', label: 'Then', value: 'run', options: ['decode', 'run', 'list kernels', 'show fusions']},
      {name: 'entry', label: 'Kernel, if there are several', value: '', size: 16, when: (v) => v.do === 'run' || v.do === 'show fusions'},
      {name: 'grid', label: 'Blocks', value: '1', size: 8, when: (v) => v.do === 'run'},
      {name: 'block', label: 'Threads of a block', value: '32', size: 8, when: (v) => v.do === 'run'},
      {name: 'shared', label: 'Dynamic shared memory', value: '', size: 8, when: (v) => v.do === 'run'},
      {name: 'args', label: 'Arguments: zeros:f16[2,64], empty:f32[8], f32:0.125, s32:64, or the name of a file of the tab Files', value: 'zeros:f32[32] zeros:f32[32] f32:0.1', wide: true, when: (v) => v.do === 'run'},
    ],
    async answer(v, ask, files) {
      const isFile = /[;{]\s*\n|\.version|asm\s*\(/.test(v.text) && v.text.trim().includes('\n');
      const name = /\.version/.test(v.text) ? 'kernel.ptx' : /asm/.test(v.text) ? 'kernel.cu' : 'listing.sass';
      const inputs = new Map([...files, [name, new TextEncoder().encode(v.text)]]);
      if (v.do === 'decode') {
        await ask(['decode', isFile || v.text.includes('\n') ? name : v.text.trim()], {title: 'Decoded', files: inputs});
        return;
      }
      const entry = flagsOf(v, {'--entry': 'entry'});
      if (v.do === 'list kernels') await ask(['run', name, '--list'], {title: 'Kernels', files: inputs});
      else if (v.do === 'show fusions') await ask(['run', name, ...entry, '--fusions'], {title: 'What ptxas fuses into one fma', files: inputs});
      else {
        const flags = flagsOf(v, {'--grid': 'grid', '--block': 'block', '--shared': 'shared'});
        const args = wordsIn(v.args).flatMap((word) => ['--arg', word]);
        await ask(['run', name, ...entry, ...flags, ...args, '--values', '8', '-o', 'out.safetensors'], {title: 'Memory after the run', files: inputs});
      }
    },
  },
  {
    id: 'math',
    title: 'Functions',
    intro: "ex2, rcp, sin, tanh, fma, cvt, ... of PTX and C's expf, logf, ... as a GPU computes them, bit for bit, and how.",
    fields: [
      {name: 'f', label: 'Function', value: 'ex2.approx.ftz.f32', size: 30, list: 'functions'},
      {name: 'x', label: 'Operands: numbers, or codes in hex', value: '0.3 1.5 0x7fc00000', size: 40},
      {name: 'target', label: 'GPU', value: '', options: targets},
      {name: 'explain', label: 'Show the steps', value: true, check: true},
    ],
    async answer(v, ask) {
      await ask(['math', v.f.trim(), ...wordsIn(v.x), ...flagsOf(v, {'--target': 'target', '--explain': 'explain'})], {title: 'Result'});
    },
  },
  {
    id: 'files',
    title: 'Files',
    intro: 'Drop a vector file with the expected D and another one with the D of your kernel (safetensors or .npy): where do they differ, and which mistake explains it? The files stay in this page.',
    takesFiles: true,
    fields: [
      {name: 'expected', label: 'Expected', value: '', file: true},
      {name: 'actual', label: 'Actual', value: '', file: true},
    ],
    async answer(v, ask, files) {
      if (v.expected === '') return;
      if (v.actual === '' || v.actual === v.expected) {
        await ask(['verify', v.expected], {title: 'Recomputed, and compared with its recorded D', files});
        await ask(['diagnose', v.expected], {title: 'Which mistake explains it', files});
        return;
      }
      await ask(['compare', v.expected, v.actual], {title: 'Differences', files});
      await ask(['diagnose', v.expected, v.actual], {title: 'Which mistake explains them', files});
    },
  },
  {
    id: 'command',
    title: 'Command line',
    intro: 'Any command of the program, over the files of the tab Files and those that commands have written here. This page lacks gpu, ptx and exec.',
    takesFiles: true,
    fields: [{name: 'line', label: 'bitmma …', value: "layout --cute 'Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))' --row 9 --col 3", wide: true}],
    async answer(v, ask, files, words) {
      const args = words(v.line);
      if (args.length === 0) return;
      const svg = args.some((word) => word === '--svg' || word.startsWith('--svg='));
      await ask(args, {as: svg ? 'picture' : 'text', files, keeps: true});
    },
  },
];
