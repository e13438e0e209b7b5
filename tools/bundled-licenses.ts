/** The licenses of packages that are bundled, which ask to go with every copy. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Rolldown } from 'tsdown'

/** Writes licenses.txt next to a bundle. */
export function collectLicenses(): Rolldown.Plugin {
  return {
    name: 'bundled-licenses',
    generateBundle(_options, bundle) {
      const chunks = Object.values(bundle).filter((output) => output.type === 'chunk')
      const modules = chunks.flatMap(({ moduleIds }) => moduleIds)
      const folders = new Set(modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? []))
      const source = [...folders]
        .toSorted()
        .map(readLicense)
        .join(`\n${'-'.repeat(80)}\n\n`)
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source })
    },
  }
}

function readLicense(folder: string): string {
  const { name, version, license, repository } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry))
  // Some packages name their license, and come without its text.
  const text = file ? readFileSync(join(folder, file), 'utf8').trim() : (repository?.url ?? repository ?? '')
  return `${name} ${version} (${license})\n\n${text}\n`
}
