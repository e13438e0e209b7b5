/**
 * What parts of the package add to a program that imports them, in KiB, minified, with and without gzip: `npm run
 * sizes`. What a program does not use is left out; what an entry needs besides the package is included.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'tsdown'

const PROGRAMS = [
  "import { createLimiter } from 'sluice'",
  "import { createLimiter, redisStore } from 'sluice'",
  "import { sluice } from 'sluice/hono'",
  "import { sluice } from 'sluice/node'",
  "import { limit } from 'sluice/fetch'",
  "import { outbound } from 'sluice/outbound'",
  "import worker from 'sluice/worker'",
]

/**
 * Bundles a program into one minified file.
 * @param program one line that imports something
 * @param project folder of a project that has the package
 */
export async function bundleProgram(program: string, project: string): Promise<string> {
  const [, names = ''] = /^import (?:\{ )?(.*?)(?: \})? from/.exec(program) ?? []
  const folder = await mkdtemp(join(project, 'program-'))
  try {
    // What is imported is used: the rest can be left out.
    await writeFile(join(folder, 'program.js'), `${program}\nglobalThis.used = [${names}]\n`)
    await build({
      config: false,
      cwd: folder,
      entry: 'program.js',
      outDir: 'out',
      outExtensions: () => ({ js: '.js' }),
      tsconfig: false,
      platform: program.includes('sluice/node') ? 'node' : 'neutral',
      minify: true,
      dts: false,
      deps: { neverBundle: /^node:/, alwaysBundle: /^[^.]/, onlyBundle: false },
      outputOptions: { codeSplitting: false },
      logLevel: 'error',
    })
    return await readFile(join(folder, 'out/program.js'), 'utf8')
  } finally {
    await rm(folder, { recursive: true })
  }
}

if (import.meta.main) {
  // Inside the package itself, its name leads to what was built.
  const lib = join(import.meta.dirname, '../lib')
  const toKiB = (bytes: number) => Math.round((bytes / 1_024) * 10) / 10
  const rows = []
  for (const program of PROGRAMS) {
    const text = await bundleProgram(program, lib)
    rows.push({ program, KiB: toKiB(Buffer.byteLength(text)), gzipped: toKiB(gzipSync(text).length) })
  }
  console.table(rows)
}
