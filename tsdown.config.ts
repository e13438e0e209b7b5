import { globSync } from 'node:fs'
import { defineConfig } from 'tsdown'

const COMMAND = 'src/cli.ts'

/** Builds the package, which package.json describes, into lib/. */
export default defineConfig({
  // Each file of src/ itself is an entry; what several of them use becomes a module that they share.
  entry: globSync('src/*.ts'),
  outDir: 'lib',
  // Runs on Workers, Node, Bun and Deno: what it takes of Node, all of them have.
  platform: 'neutral',
  deps: { neverBundle: /^node:/, onlyBundle: [] },
  dts: true,
  // Slots are disposable, which not every project's `lib` knows.
  banner: { dts: '/// <reference lib="esnext.disposable" />' },
  logLevel: 'error',
  outExtensions: () => ({ js: '.js', dts: '.d.ts' }),
})
