/**
 * Checks words of `src/`: no type name has two homes, no doc comment begins as a fragment of a sentence, and nothing is
 * called that the oldest Node of `engines` lacks.
 *
 *     node tools/check-names.ts
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const TYPE = /^(?:export )?(?:interface|type|class|abstract class) (\w+)/gm
/** A comment that begins so has no verb, or hides it: "Of those that wait." */
const FRAGMENT =
  /\/\*\*(?:\s|\*(?!\/))*((?:Of|That of|Those|What|Whether|As|By|For|Under|In|Who|Whose|So|Such) .{0,60})/g
/** Node 20 has neither. */
const MISSING = /\b(?:Map|Object)\.groupBy\b|\bPromise\.withResolvers\b|\bArray\.fromAsync\b/g

/** @param texts modules by their paths @returns one line for each fault */
export function findNameFaults(texts: ReadonlyMap<string, string>): readonly string[] {
  const faults: string[] = []
  const homes = new Map<string, string>()
  for (const [file, text] of texts) {
    for (const [, name = ''] of text.matchAll(TYPE)) {
      const home = homes.get(name) ?? file
      if (home !== file) faults.push(`${file}: the type ${name} has another home in ${home}`)
      homes.set(name, home)
    }
    for (const [, start = ''] of text.matchAll(FRAGMENT)) {
      faults.push(`${file}: a comment begins as a fragment: ${start}`)
    }
    for (const [call] of text.replace(/\/\*[\s\S]*?\*\//g, '').matchAll(MISSING)) {
      faults.push(`${file}: Node 20 lacks ${call}`)
    }
  }
  return faults
}

/** Reads all modules but those that are generated. */
export function readModules(root: string): ReadonlyMap<string, string> {
  const texts = globSync('src/**/*.ts', { cwd: root })
    .sort()
    .map((file) => [file, readFileSync(join(root, file), 'utf8')] as const)
  return new Map(texts.filter(([, text]) => !/^(?:\/\/|\/\*\*?) ?(?:Made|Generated|Written)/.test(text)))
}

if (import.meta.main) {
  const faults = findNameFaults(readModules(join(import.meta.dirname, '..')))
  for (const fault of faults) console.error(fault)
  process.exitCode = faults.length > 0 ? 1 : 0
}
