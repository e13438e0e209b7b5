import { appendFileSync, existsSync, readFileSync } from 'node:fs'

/** Part of every secret that the tests give to Sluice: no output may show it, wherever it comes from. */
export const PLANTED = 'planted-secret'

const LEAK = new RegExp(`.{0,60}${PLANTED}.{0,20}`, 'gs')

/** Names the file that the Workers of a run log to; set by vitest.config.ts for all its processes. */
export const WORKER_LOG = 'SLUICE_TEST_WORKER_LOG'

/** Keeps what a Worker under test has logged, to be searched when all tests have run. */
export function keepWorkerLog(line: string): void {
  const file = process.env[WORKER_LOG]
  if (file) appendFileSync(file, `${line}\n`)
}

/** Searches the output of a run for planted secrets. */
export class SecretWatch {
  readonly #leaks: string[] = []
  readonly #workerLog: string | undefined

  constructor(workerLog = process.env[WORKER_LOG]) {
    this.#workerLog = workerLog
  }

  read(output: string): void {
    this.#leaks.push(...(output.match(LEAK) ?? []))
  }

  /** Where a secret was seen, with a little of what is around it. */
  end(): readonly string[] {
    if (this.#workerLog && existsSync(this.#workerLog)) this.read(readFileSync(this.#workerLog, 'utf8'))
    return this.#leaks
  }
}
