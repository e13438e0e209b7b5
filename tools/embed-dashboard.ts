/**
 * Builds the dashboard and writes it into a module that every bundler can import: `npm run embed-dashboard`.
 *
 * With `--check`, it fails if the module is not what the sources say.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'tsdown'
import { ROOT, readSource, writeGenerated } from './write-generated.ts'

const MODULE = 'src/gateway/admin/dashboard/files.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-dashboard-'))
try {
  await embed()
} finally {
  rmSync(folder, { recursive: true })
}

async function embed(): Promise<void> {
  await build({
    config: false,
    cwd: ROOT,
    entry: { dashboard: 'dashboard/main.tsx' },
    tsconfig: 'dashboard/tsconfig.json',
    outDir: folder,
    outExtensions: () => ({ js: '.js' }),
    outputOptions: { comments: false },
    platform: 'browser',
    deps: { alwaysBundle: /./, onlyBundle: false },
    minify: true,
    dts: false,
    logLevel: 'error',
  })
  const css = readSource('dashboard/style.css')
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s*\n\s*/g, '\n')
  const files = {
    '': ['text/html; charset=utf-8', readSource('dashboard/index.html')],
    'dashboard.js': ['text/javascript; charset=utf-8', readFileSync(join(folder, 'dashboard.js'), 'utf8')],
    'dashboard.css': ['text/css; charset=utf-8', css],
  } as const
  const entries = Object.entries(files).map(([name, [type, text]]) => {
    const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 16)}"`
    return `  ${JSON.stringify(name)}: ${JSON.stringify({ type, etag, text })},\n`
  })
  const module = `// Made of dashboard/ by \`npm run embed-dashboard\`. Do not edit.\nexport const FILES = {\n${entries.join('')}} as const\n`
  writeGenerated(new Map([[MODULE, module]]), 'embed-dashboard')
}
