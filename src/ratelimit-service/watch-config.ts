/** Reads the configuration from a file or a folder, and again when it changes. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { OnStoreError } from '../core/model/policy.ts'
import { type ConfigFile, type Domains, readDomains } from './rate-limits.ts'

/** Mounted volumes change by a link to another folder, of which watchers of files hear nothing. */
const READ_EVERY_MS = 1_000

export interface WatchedConfig {
  readonly domains: Domains
  /** Stops reading it. */
  close(): void
}

/**
 * @param note is told that a change is active, or in which line it is wrong: what was read before then stays active
 * @throws {ConfigError} and errors of the file system
 */
export function openConfig(path: string, onStoreError: OnStoreError, note: (text: string) => void): WatchedConfig {
  let files = readFiles(path)
  let domains = readDomains(files, onStoreError)
  let lastProblem = ''
  const timer = setInterval(() => {
    try {
      const read = readFiles(path)
      lastProblem = ''
      if (JSON.stringify(read) === JSON.stringify(files)) return
      files = read
      domains = readDomains(files, onStoreError)
      note(`${path}: the changed configuration is active`)
    } catch (error) {
      const problem = `${(error as Error).message}; the configuration before stays active`
      if (problem !== lastProblem) note(problem)
      lastProblem = problem
    }
  }, READ_EVERY_MS)
  timer.unref()
  return {
    get domains() {
      return domains
    },
    close: () => clearInterval(timer),
  }
}

/** Reads a file, or those of a folder that end with .yaml or .yml. */
function readFiles(path: string): readonly ConfigFile[] {
  const isFolder = statSync(path).isDirectory()
  const names = isFolder ? readdirSync(path).filter((name) => /^[^.].*\.ya?ml$/.test(name)) : []
  if (isFolder && names.length === 0) throw new Error(`${path}: expected files that end with .yaml or .yml`)
  const files = isFolder ? names.sort().map((name) => join(path, name)) : [path]
  return files.map((name) => ({ name, text: readFileSync(name, 'utf8') }))
}
