import { globSync } from 'node:fs'
import { defineConfig, type Rolldown } from 'tsdown'
import manifest from './package.json' with { type: 'json' }
import { collectLicenses } from './tools/bundled-licenses.ts'
import { renderWranglerSchema } from './tools/wrangler-schema.ts'

const COMMAND = 'src/cli.ts'
/** What npm links as the command. */
const LAUNCHER = 'src/launcher.ts'

/** Builds the packages, which package.json describes, into lib/. */
export default defineConfig([
  {
    // Each file of src/ itself is an entry; what several of them use becomes a module that they share.
    entry: globSync('src/*.ts').filter((file) => file !== COMMAND && file !== LAUNCHER),
    outDir: 'lib',
    // Runs wherever `fetch` does: modules of Node are in `sluice/node` and `sluice/worker` alone.
    platform: 'neutral',
    deps: { neverBundle: /^(?:node|cloudflare):/, onlyBundle: [] },
    // With that of the whole repository, all of it would be compiled.
    dts: { tsconfig: 'tsconfig.package.json' },
    // `await using` is newer than the library that many projects check against.
    banner: { dts: '/// <reference lib="esnext.disposable" />' },
    logLevel: 'error',
    outExtensions: () => ({ js: '.js', dts: '.d.ts' }),
  },
  {
    entry: [LAUNCHER],
    outDir: 'lib',
    clean: false,
    platform: 'node',
    deps: { onlyBundle: [] },
    dts: false,
    logLevel: 'error',
    outExtensions: () => ({ js: '.js' }),
  },
  {
    // The command, with all that it needs, in a package of its own: who uses the library alone installs none of it.
    entry: [COMMAND],
    outDir: 'lib/command',
    platform: 'node',
    // gRPC reads files beside its own, and only `serve --grpc` needs it.
    deps: { neverBundle: /^@grpc\//, alwaysBundle: /^(?!@grpc\/)/, onlyBundle: false },
    // Some packages cannot be bundled in the form that they have for CommonJS.
    inputOptions: { resolve: { mainFields: ['module', 'main'] } },
    plugins: [collectLicenses(), describeCommand()],
    dts: false,
    minify: true,
    logLevel: 'error',
    outExtensions: () => ({ js: '.js' }),
  },
])

/** Writes the package.json of the command, whose version is that of the library, and the schema for editors. */
function describeCommand(): Rolldown.Plugin {
  const { name, version, license, type, engines, repository, homepage, bugs } = manifest
  const peers = { '@grpc/grpc-js': '^1.14.0', '@grpc/proto-loader': '^0.8.0' }
  const json = {
    ...{ name: `${name}-command`, version, description: 'The command of the rate limiter Sluice: npx sluice' },
    ...{ license, type, engines, repository, homepage, bugs },
    bin: { [`${name}-command`]: './cli.js' },
    exports: './cli.js',
    peerDependencies: peers,
    peerDependenciesMeta: Object.fromEntries(Object.keys(peers).map((peer) => [peer, { optional: true }])),
  }
  return {
    name: 'command-package',
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: 'package.json', source: `${JSON.stringify(json, null, 2)}\n` })
      this.emitFile({ type: 'asset', fileName: 'wrangler.schema.json', source: renderWranglerSchema() })
    },
  }
}
