/** Files of this repository that commands write. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '..')

/** @param path from the root of the repository */
export function readSource(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

/** Writes files of this repository; with `--check`, only names those that are stale, and fails. @param by the command that writes them */
export function writeGenerated(texts: ReadonlyMap<string, string>, by: string): void {
  for (const [file, text] of texts) {
    if (!process.argv.includes('--check')) writeFileSync(join(ROOT, file), text)
    else if (readSource(file) !== text) {
      console.error(`${file} is stale: npm run ${by}`)
      process.exitCode = 1
    }
  }
}
