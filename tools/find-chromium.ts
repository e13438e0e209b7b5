import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { defaultPath, findExecutable, lastLine } from './executables.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
const APT_INSTALL = 'apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 chromium'

export interface FindChromiumOptions {
  /** Directories to search, as in PATH. Default: PATH, and those where packages put what they install. */
  path?: string
  log?: (line: string) => void
}

/**
 * Path of a Chromium: one that is there, else Debian's package, newly installed.
 * @throws Error whose one line says what to install.
 */
export async function findChromium({
  path = defaultPath(),
  log = console.error,
}: FindChromiumOptions = {}): Promise<string> {
  const found = await findAny(path)
  if (found) return found
  log('No Chromium is installed: installing the package "chromium" with apt-get …')
  const env = { ...process.env, PATH: path, DEBIAN_FRONTEND: 'noninteractive' }
  const command = `${APT_INSTALL} || { apt-get update && ${APT_INSTALL}; }`
  await promisify(execFile)('sh', ['-c', command], { env }).catch((error) => {
    throw new Error(explain(`apt-get failed: ${lastLine(error)}`))
  })
  const installed = await findAny(path)
  if (installed) return installed
  throw new Error(explain('apt-get installed none'))
}

async function findAny(path: string): Promise<string | undefined> {
  for (const name of NAMES) {
    const found = await findExecutable(name, path)
    if (found) return found
  }
  return undefined
}

function explain(reason: string): string {
  return `no Chromium is installed (${reason}). Install it: "apt-get install chromium"`
}
