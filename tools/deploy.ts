/** `sluice check`, and then `wrangler deploy` with the same arguments. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const args = process.argv.slice(2)
const { values } = parseArgs({
  args,
  strict: false,
  options: {
    env: { type: 'string', short: 'e' },
    config: { type: 'string', short: 'c' },
    'dry-run': { type: 'boolean' },
  },
})
// Wrangler reads them in the same way.
const { env = process.env.CLOUDFLARE_ENV, config } = values
const named = [
  ...(typeof env === 'string' ? ['--env', env] : []),
  ...(typeof config === 'string' ? ['--config', resolve(config)] : []),
]
// What is still that of an example may be built, and not be put in front of callers; `--var` puts another in its place.
const isFinal = values['dry-run'] !== true && !args.some((arg) => arg.includes('UPSTREAM_URL:'))

await run(process.execPath, [
  join(import.meta.dirname, '../src/cli.ts'),
  ...['check', ...named, ...(isFinal ? ['--deploy'] : [])],
])
await run('wrangler', ['deploy', ...args])

/** Ends this process if the other one fails. */
async function run(command: string, args: readonly string[]): Promise<void> {
  const [code] = await once(spawn(command, args, { stdio: 'inherit' }), 'close')
  if (code !== 0) process.exit(code ?? 1)
}
