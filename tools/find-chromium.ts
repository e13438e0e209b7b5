import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { defaultPath, findExecutable, lastLine } from './executables.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
const APT_INSTALL = 'apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 chromium'

/**
 * Path of a Chromium: one that is there, else Debian's package, newly installed.
 * @throws Error whose one line says what to install.
 */
export async function findChromium(): Promise<string> {
  const path = defaultPath()
  const found = await findAny(path)
  if (found) return found
  console.error('No Chromium is installed: installing the package "chromium" with apt-get …')
  const command = `${APT_INSTALL} || { apt-get update && ${APT_INSTALL}; }`
  const env = { ...process.env, PATH: path, DEBIAN_FRONTEND: 'noninteractive' }
  await promisify(execFile)('sh', ['-c', command], { env }).catch((error) => {
    throw new Error(
      `no Chromium is installed (apt-get failed: ${lastLine(error)}). Install it: "apt-get install chromium"`,
    )
  })
  const installed = await findAny(path)
  if (installed) return installed
  throw new Error('no Chromium is installed (apt-get installed none). Install it: "apt-get install chromium"')
}

async function findAny(path: string): Promise<string | undefined> {
  for (const name of NAMES) {
    const found = await findExecutable(name, path)
    if (found) return found
  }
  return undefined
}
