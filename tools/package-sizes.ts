/**
 * What parts of the package add to a program that imports them, in KiB, minified, with and without gzip: `npm run sizes`.
 * What a program does not use is left out; what an entry needs beside the package is in it.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'tsdown'

const PROGRAMS = [
  "import { createLimiter } from 'sluice'",
  "import { createLimiter, redisStore } from 'sluice'",
  "import worker from 'sluice/worker'",
]

const folder = await mkdtemp(join(tmpdir(), 'sluice-sizes-'))
try {
  const rows = []
  for (const program of PROGRAMS) rows.push({ program, ...(await sizesOf(program)) })
  console.table(rows)
} finally {
  await rm(folder, { recursive: true })
}

async function sizesOf(program: string): Promise<{ KiB: number; gzipped: number }> {
  const [, names = ''] = /^import (?:\{ )?(.*?)(?: \})? from/.exec(program) ?? []
  const file = join(folder, 'program.js')
  // So that what is imported is used.
  await writeFile(file, `${program}\nglobalThis.used = [${names}]\n`)
  await build({
    config: false,
    cwd: import.meta.dirname,
    entry: { program: file },
    outDir: join(folder, 'out'),
    platform: 'neutral',
    minify: true,
    dts: false,
    deps: { neverBundle: /^node:/, alwaysBundle: /^[^.]/, onlyBundle: false },
    outputOptions: { codeSplitting: false },
    logLevel: 'error',
  })
  const bundle = await readFile(join(folder, 'out/program.js'))
  return { KiB: toKiB(bundle.length), gzipped: toKiB(gzipSync(bundle).length) }
}

function toKiB(bytes: number): number {
  return Math.round((bytes / 1_024) * 10) / 10
}
