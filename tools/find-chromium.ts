/** A Chromium for tests and screenshots of the dashboard. */
import { findProgram, type InstallOptions, type Program } from './programs.ts'

const CHROMIUM: Program = {
  title: 'Chromium',
  names: ['chromium', 'chromium-browser', 'google-chrome'],
  packages: { 'apt-get': 'chromium' },
  advice: 'Install it: "apt-get install chromium"',
}

/**
 * Path of a Chromium: one that is there, else Debian's package, newly installed.
 * @throws Error whose one line says what to install
 */
export function findChromium(options?: InstallOptions): Promise<string> {
  return findProgram(CHROMIUM, options)
}
