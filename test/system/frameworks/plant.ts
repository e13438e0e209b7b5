/**
 * Plants one fault after the other into the adapters of a copy of the package, and asks the hosts of the matrix for what
 * is promised: `npm run test:planted-hosts`. Each must break a promise. With names of faults, plants those only.
 */
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { writePackages } from '../../../tools/pack.ts'
import { plant } from '../../planted/plant.ts'
import { RUNTIMES } from '../package/runtimes/install.ts'
import { FAULTS, type HostFault } from './faults.ts'
import { BUILT, install } from './places.ts'

const ROOT = join(import.meta.dirname, '../../..')
const BOUND_MS = 300_000

const folder = mkdtempSync(join(tmpdir(), 'sluice-planted-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const [library] = await writePackages(folder)
await install(library?.path ?? '')
/** The package that hosts use. */
const installed = join(BUILT, '../node_modules/sluice/lib')

for (const path of [
  'src',
  'tools',
  'package.json',
  'tsdown.config.ts',
  'tsconfig.json',
  'tsconfig.package.json',
  'lua',
]) {
  cpSync(join(ROOT, path), join(folder, path), { recursive: true })
}
symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))

function build(): void {
  // Types and the command are of no use here.
  execFileSync('tsdown', ['--no-dts'], { cwd: folder, stdio: 'ignore' })
  rmSync(installed, { recursive: true })
  cpSync(join(folder, 'lib'), installed, { recursive: true })
}

/** @returns the promises that hosts break */
async function askHosts(host: string): Promise<readonly string[]> {
  const [command = '', ...args] = RUNTIMES[/^(?:Bun|Deno)/.exec(host)?.[0] ?? 'Node'] ?? []
  const options = { cwd: BUILT, timeout: BOUND_MS }
  const { stdout } = await promisify(execFile)(command, [...args, 'hosts/main.js', host], options).catch((error) => ({
    stdout: `${error.stdout}{"host":"${host}","a run":"has failed"}`,
  }))
  const rows = stdout.split('\n').filter((line) => line.startsWith('{'))
  return rows.flatMap((line) => {
    const { host, ...cells } = JSON.parse(line) as Record<string, string>
    const broken = Object.entries(cells).filter(([, cell]) => cell !== 'yes' && cell !== '')
    return broken.map(([promise, cell]) => `${host}, ${promise}: ${cell}`)
  })
}

async function findFault(fault: HostFault): Promise<readonly string[]> {
  const remove = plant(folder, fault)
  try {
    build()
    return await askHosts(fault.host)
  } finally {
    remove()
  }
}

const only = process.argv.slice(2)
const planted = FAULTS.filter(({ name }) => only.length === 0 || only.includes(name))
let found = 0
for (const fault of planted) {
  const broken = await findFault(fault)
  if (broken.length > 0) found++
  console.log(`${fault.name} (${fault.file}): ${broken.length > 0 ? `found by ${broken.length}` : 'NOT FOUND'}`)
  for (const cell of broken) console.log(`  ${cell}`)
}
build()
console.log(`\n${found} of ${planted.length} found`)
process.exitCode = found < planted.length || planted.length === 0 ? 1 : 0
