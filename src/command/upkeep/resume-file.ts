import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import * as v from 'valibot'
import type { Position, Tally } from './sweep.ts'

/** Where a run of a job stands that has not come to its end. */
export interface Unfinished {
  readonly position: Position
  /** Of all runs so far. */
  readonly tally: Tally
  readonly share: number
  readonly seconds: number
}

/** What tells one job from another. */
export interface JobIdentity {
  /** Of the database, without credentials. */
  readonly database: string
  readonly job: string
  readonly match: string
}

const count = v.pipe(v.number(), v.integer(), v.minValue(0))
const UNFINISHED = v.object({
  position: v.object({ cursor: v.pipe(v.string(), v.regex(/^\d{1,20}$/)), serverId: v.optional(v.string()) }),
  tally: v.object({ seen: count, changed: count, kept: count, gone: count, unnameable: count }),
  share: v.pipe(v.number(), v.minValue(0), v.maxValue(1)),
  seconds: v.pipe(v.number(), v.minValue(0)),
})

/** A small file, from which a run goes on that was killed. Each job has its own. */
export class ResumeFile {
  readonly path: string
  readonly #folder: string
  readonly #identity: JobIdentity

  constructor(identity: JobIdentity, env: Readonly<Record<string, string | undefined>>) {
    const { database, job, match } = identity
    const name = createHash('sha256')
      .update(JSON.stringify([database, job, match]))
      .digest('hex')
      .slice(0, 16)
    this.#identity = identity
    this.#folder = join(env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state'), 'sluice')
    this.path = join(this.#folder, `${name}.json`)
  }

  /** Undefined if there is none, or none that can be used. */
  read(): Unfinished | undefined {
    try {
      const { position, ...rest } = v.parse(UNFINISHED, JSON.parse(readFileSync(this.path, 'utf8')))
      return { ...rest, position: { cursor: position.cursor, serverId: position.serverId } }
    } catch {
      return undefined
    }
  }

  /** Puts it in place whole. @returns whether it could be written */
  write(unfinished: Unfinished): boolean {
    const written = `${this.path}.${process.pid}`
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      writeFileSync(written, `${JSON.stringify({ ...this.#identity, ...unfinished })}\n`, { mode: 0o600 })
      renameSync(written, this.path)
      return true
    } catch {
      return false
    }
  }

  remove(): void {
    rmSync(this.path, { force: true })
  }
}
