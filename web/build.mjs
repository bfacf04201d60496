// Bundles src/ into dist/: index.html, and hashed files in assets/ with a .gz beside each.
import { build } from 'esbuild';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';

const limit = 30_000; // bytes of gzip, script and style together

await rm('dist', { recursive: true, force: true });
await mkdir('dist/assets', { recursive: true });
const result = await build({
  entryPoints: ['src/main.tsx', 'src/style.css'],
  entryNames: '[name]-[hash]',
  outdir: 'dist/assets',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2021',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  write: false,
});

let page = await readFile('src/index.html', 'utf8');
let total = 0;
for (const file of result.outputFiles) {
  const name = basename(file.path);
  const packed = gzipSync(file.contents, { level: 9 });
  total += packed.length;
  await writeFile(`dist/assets/${name}`, file.contents);
  await writeFile(`dist/assets/${name}.gz`, packed);
  page = page.replace(name.endsWith('.css') ? '/style.css' : '/main.js', `/assets/${name}`);
}
await writeFile('dist/index.html', page);
console.log(`dist: ${total} bytes of gzip`);
if (total > limit) {
  console.error(`more than ${limit} bytes: find out what grew`);
  process.exit(1);
}
