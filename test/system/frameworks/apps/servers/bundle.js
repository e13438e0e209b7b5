/** Bundles a server and all that it needs into ES modules, as functions on AWS Lambda are; any warning fails. */
import { nodeResolve } from '@rollup/plugin-node-resolve'
import { build } from 'esbuild'
import { rollup } from 'rollup'
import webpack from 'webpack'

const [, , bundler, entry, folder] = process.argv

const BUNDLERS = {
  async esbuild() {
    const files = { entryPoints: [entry], outdir: folder, outExtension: { '.js': '.mjs' } }
    const { warnings } = await build({ ...files, bundle: true, platform: 'node', format: 'esm' })
    return warnings
  },
  async rollup() {
    const warnings = []
    const plugins = [nodeResolve({ preferBuiltins: true })]
    const bundle = await rollup({ input: entry, plugins, onwarn: (warning) => warnings.push(warning) })
    await bundle.write({ dir: folder, format: 'esm', entryFileNames: '[name].mjs' })
    return warnings
  },
  async webpack() {
    const output = { path: folder, filename: '[name].mjs', module: true, library: { type: 'module' } }
    const parts = { entry: { http: entry }, output, experiments: { outputModule: true } }
    const compiler = webpack({ ...parts, mode: 'production', target: 'node' })
    const stats = await new Promise((resolve, reject) =>
      compiler.run((error, stats) => (error ? reject(error) : resolve(stats))),
    )
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true })
    return [...errors, ...warnings]
  },
}

for (const { message, text } of await BUNDLERS[bundler]()) {
  console.error(message ?? text)
  process.exitCode = 1
}
