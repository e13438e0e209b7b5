/**
 * Composes the gateway once for the variables and bindings of its argument, and prints as JSON the paths below src/ of
 * all that was imported. It imports nothing of src/ itself: what was loaded before would not be seen.
 */
import { registerHooks } from 'node:module'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const SRC = join(import.meta.dirname, '../src')
const BINDING = { fetch() {}, idFromName() {}, writeDataPoint() {} }

const { variables, bindings } = JSON.parse(process.argv[2] as string)
const loaded: string[] = []
registerHooks({
  load(url, context, next) {
    if (url.startsWith('file:')) loaded.push(relative(SRC, fileURLToPath(url)).replaceAll(sep, '/'))
    return next(url, context)
  },
})
globalThis.fetch = () => Promise.reject(new Error('nothing is asked while building'))
const { createHandler } = await import('../src/gateway/create-handler.ts')
try {
  const stubs = bindings.map((name: string) => [name, BINDING])
  await createHandler({ ...variables, ...Object.fromEntries(stubs) })
} catch (error) {
  if ((error as Error).name !== 'OptionError') throw error
  console.error(`${(error as Error).message}\n  A secret that the Worker needs belongs in required of [secrets].`)
  process.exit(1)
}
console.log(JSON.stringify(loaded))
// The gateway may have begun what would go on for as long as it runs.
process.exit()
