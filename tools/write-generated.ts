import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

/** Writes files of this repository; with `--check`, only names those that are stale, and fails. @param by the command that writes them */
export function writeGenerated(texts: ReadonlyMap<string, string>, by: string): void {
  for (const [file, text] of texts) {
    const path = join(ROOT, file)
    if (!process.argv.includes('--check')) writeFileSync(path, text)
    else if (readFileSync(path, 'utf8') !== text) {
      console.error(`${file} is stale: npm run ${by}`)
      process.exitCode = 1
    }
  }
}
