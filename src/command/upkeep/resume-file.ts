/** A small file from which a stopped or killed run resumes. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import * as v from 'valibot'
import { units } from '../../gateway/api/schema.ts'
import type { Context } from '../subcommand.ts'

const UNFINISHED = v.object({
  cursor: v.pipe(v.string(), v.regex(/^\d{1,20}$/)),
  tally: v.object({ seen: units, changed: units, kept: units, gone: units, unnameable: units }),
  share: v.pipe(v.number(), v.minValue(0), v.maxValue(1)),
  seconds: v.pipe(v.number(), v.minValue(0)),
})

export type Unfinished = v.InferOutput<typeof UNFINISHED>

/** One per job. */
export class ResumeFile {
  readonly path: string

  /** @param identity database without credentials, job, pattern */
  constructor(identity: readonly string[], env: Context['env']) {
    const hash = createHash('sha256').update(JSON.stringify(identity)).digest('hex')
    const folder = env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state')
    this.path = join(folder, 'sluice', `${hash.slice(0, 16)}.json`)
  }

  /** @returns undefined if it is missing or unusable */
  read(): Unfinished | undefined {
    try {
      return v.parse(UNFINISHED, JSON.parse(readFileSync(this.path, 'utf8')))
    } catch {
      return undefined
    }
  }

  /** Replaces the file atomically. @returns false if it cannot be written */
  write(unfinished: Unfinished): boolean {
    const draft = `${this.path}.${process.pid}`
    try {
      mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
      writeFileSync(draft, `${JSON.stringify(unfinished)}\n`, { mode: 0o600 })
      renameSync(draft, this.path)
      return true
    } catch {
      return false
    }
  }

  remove(): void {
    rmSync(this.path, { force: true })
  }
}
