import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endTogether } from '../../tools/end-together.ts'
import { findPrometheus } from '../../tools/find-prometheus.ts'
import { findFreePort } from '../../tools/free-port.ts'

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
  const child = spawn(
    server,
    [`--config.file=${file}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=${new URL(url).host}`],
    { stdio: 'ignore', detached: true },
  )
  await once(child, 'spawn')
  const removeGuard = endTogether(child.pid as number, folder)
  const closed = once(child, 'close')
  return {
    async ask(path, parameters = {}) {
      const response = await fetch(`${url}/api/v1${path}?${new URLSearchParams(parameters)}`)
      const answer = (await response.json()) as { status: string; data: unknown; error?: string }
      if (answer.status !== 'success') throw new Error(`${path} ${JSON.stringify(parameters)}: ${answer.error}`)
      return answer
    },
    async stop() {
      child.kill('SIGKILL')
      await closed
      removeGuard()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
