import { globSync } from 'node:fs'
import { defineConfig } from 'tsdown'
import { collectLicenses } from './tools/bundled-licenses.ts'

const COMMAND = 'src/cli.ts'

/** Builds the package, which package.json describes, into lib/. */
export default defineConfig([
  {
    // Each file of src/ itself is an entry; what several of them use becomes a module that they share.
    entry: globSync('src/*.ts').filter((file) => file !== COMMAND),
    outDir: 'lib',
    // Runs wherever `fetch` does: modules of Node are in `sluice/node` and `sluice/worker` alone.
    platform: 'neutral',
    deps: { neverBundle: /^node:/, onlyBundle: [] },
    // With that of the whole repository, all of it would be compiled.
    dts: { tsconfig: 'tsconfig.package.json' },
    // `await using` is newer than the library that many projects check against.
    banner: { dts: '/// <reference lib="esnext.disposable" />' },
    logLevel: 'error',
    outExtensions: () => ({ js: '.js', dts: '.d.ts' }),
  },
  {
    // The command, with all that it needs: who uses the library alone installs none of it.
    entry: [COMMAND],
    outDir: 'lib/command',
    platform: 'node',
    // gRPC reads files beside its own, and only `serve --grpc` needs it.
    deps: { neverBundle: /^@grpc\//, alwaysBundle: /^(?!@grpc\/)/, onlyBundle: false },
    // Some packages cannot be bundled in the form that they have for CommonJS.
    inputOptions: { resolve: { mainFields: ['module', 'main'] } },
    plugins: [collectLicenses()],
    dts: false,
    minify: true,
    logLevel: 'error',
    outExtensions: () => ({ js: '.js' }),
  },
])
