/** The Worker of `npm run dev`, in workerd. */
import './wrangler-switches.ts'
import { join } from 'node:path'
import { unstable_DevEnv as DevEnv, unstable_readConfig as readConfig } from 'wrangler'
import { WRANGLER_TOML } from './dev-variables.ts'

export interface DevWorkerOptions {
  /** Port on 127.0.0.1; 0 stands for a free one. */
  port: number
  /** The Worker sees these variables and no others. */
  variables: Readonly<Record<string, unknown>>
}

/** Replaces the build for production, which writes where other processes may read. */
const FROM_SOURCES = {
  main: join(import.meta.dirname, 'dev-entry.ts'),
  build: { watch_dir: './src' },
  no_bundle: false,
  find_additional_modules: false,
} as const

/**
 * Runs the Worker in workerd and resolves with its URL when it is ready. A change of a source reloads it, a crash
 * restarts it, and it ends with this process.
 * @throws Error if the port is taken or the Worker's entry cannot be read.
 */
export async function startDevWorker({ port, variables }: DevWorkerOptions): Promise<string> {
  const server = new DevEnv()
  const failed = new Promise<never>((_, reject) => server.once('error', reject))
  failed.catch(() => {})

  const starting = server.startWorker({
    // The variables come from `bindings` alone; there, nothing is missing that wrangler.toml requires as a secret.
    config: { ...readConfig({ config: WRANGLER_TOML }), ...FROM_SOURCES, vars: {}, secrets: undefined },
    envFiles: ['/dev/null'],
    bindings: Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, toBinding(value)])),
    dev: {
      server: { hostname: '127.0.0.1', port },
      inspector: false,
      persist: false,
      watch: true,
      logLevel: 'warn',
      structuredLogsHandler: ({ level, message }: { level: string; message: string }) =>
        level === 'error' ? console.error(message) : console.log(message),
    },
  })
  const worker = await starting.catch((error: Error) => {
    // It says only that the start failed; its cause says why, e.g. an error in a source.
    throw error.cause ?? error
  })
  await Promise.race([worker.ready, failed])
  return (await worker.url).origin
}

function toBinding(value: unknown) {
  return typeof value === 'string' ? { type: 'plain_text', value } : { type: 'json', value }
}
