import { once } from 'node:events'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findPrometheus } from '../../tools/find-prometheus.ts'
import { findFreePort } from '../../tools/free-port.ts'
import { startProgram } from './program.ts'

export interface ScrapingPrometheus {
  /** An answer of its API. @param path below `/api/v1` */
  ask(path: string, parameters?: Readonly<Record<string, string>>): Promise<{ readonly data: unknown }>
  stop(): Promise<void>
}

/** A real Prometheus that scrapes a gateway every second. */
export async function startPrometheus(gateway: URL, token: string): Promise<ScrapingPrometheus> {
  const { server } = await findPrometheus()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-prometheus-'))
  const config = {
    scrape_configs: [
      {
        job_name: 'sluice',
        scrape_interval: '1s',
        metrics_path: '/_sluice/metrics',
        authorization: { credentials: token },
        static_configs: [{ targets: [gateway.host] }],
      },
    ],
  }
  const file = join(folder, 'prometheus.yml')
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config))
  const url = `http://127.0.0.1:${await findFreePort()}`
  const { child, end } = startProgram(
    server,
    [`--config.file=${file}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=${new URL(url).host}`],
    { stdio: 'ignore', detached: true, folder },
  )
  await once(child, 'spawn')
  return {
    async ask(path, parameters = {}) {
      const response = await fetch(`${url}/api/v1${path}?${new URLSearchParams(parameters)}`)
      const answer = (await response.json()) as { status: string; data: unknown; error?: string }
      if (answer.status !== 'success') throw new Error(`${path} ${JSON.stringify(parameters)}: ${answer.error}`)
      return answer
    },
    stop: async () => void (await end()),
  }
}
