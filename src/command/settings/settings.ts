import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { parse } from 'dotenv'
import { meantVariable, SECRETS, VARIABLES } from '../../config/variables.ts'
import { CommandError } from '../command-error.ts'
import { WranglerFile } from './wrangler-file.ts'

export interface SettingsOptions {
  readonly cwd: string
  /**
   * Environment of the shell. Only the variables that Sluice reads count, and names that look like misspellings of
   * them.
   */
  readonly shell: Readonly<Record<string, string | undefined>>
  /** Path of Wrangler's file: TOML, or JSON by its name. Default: the one that Wrangler finds from `cwd` upwards. */
  readonly config?: string | undefined
  /** Name of an environment of that file. */
  readonly env?: string | undefined
  /**
   * `deployed`: what `wrangler deploy` takes along, and the secrets that are known here. `development`: as `npm run dev`,
   * where the shell wins over `.dev.vars`, which wins over Wrangler's file.
   */
  readonly view: 'deployed' | 'development'
}

/** Where the value of a variable comes from; `wrangler`: from Wrangler's file. */
type Source = 'wrangler' | '.dev.vars' | 'shell'

/** `.dev.vars`, as Wrangler reads it. */
export interface DevVars {
  readonly file: string
  readonly text: string
  readonly values: Readonly<Record<string, string>>
}

/** The Worker's variables, and where they come from. */
export interface Settings {
  readonly variables: Readonly<Record<string, unknown>>
  readonly sources: ReadonlyMap<string, Source>
  /** Undefined if there is none; names and digests then come from the shell and `.dev.vars` alone. */
  readonly file: WranglerFile | undefined
  readonly devVars: DevVars | undefined
  /** Where the environment's own keys stand in Wrangler's file: `[]`, or `['env', name]`. */
  readonly root: readonly string[]
}

/**
 * Reads the variables.
 * @throws {CommandError} if a named file is not there, cannot be read, or has no such environment
 */
export function readSettings({ cwd, shell, config, env, view }: SettingsOptions): Settings {
  const path = config === undefined ? findWranglerFile(cwd) : resolve(cwd, config)
  const file = path === undefined ? undefined : readFile(path, shownFrom(cwd, path))
  if (env !== undefined) refuseUnknownEnvironment(env, file)
  const directory = path === undefined ? cwd : dirname(path)
  const devVars = readDevVars(directory, env, cwd)
  const root = env === undefined ? [] : ['env', env]

  const sources = new Map<string, Source>()
  const variables: Record<string, unknown> = {}
  const add = (source: Source, values: Readonly<Record<string, unknown>>, isTaken: (name: string) => boolean) => {
    for (const [name, value] of Object.entries(values)) {
      // In .dev.vars and the shell, an empty secret counts as not set: a copy of .dev.vars.example names them all.
      const isNone = value === undefined || (value === '' && SECRETS.has(name) && source !== 'wrangler')
      if (!isTaken(name) || (isNone && !(name in variables))) continue
      if (isNone) {
        delete variables[name]
        sources.delete(name)
      } else {
        variables[name] = value
        sources.set(name, source)
      }
    }
  }
  const isSecret = (name: string) => SECRETS.has(name)
  const isOurs = (name: string) => (VARIABLES as readonly string[]).includes(name) || meantVariable(name) !== undefined
  add('wrangler', file?.table(...root, 'vars') ?? {}, () => true)
  add('.dev.vars', devVars?.values ?? {}, view === 'deployed' ? isSecret : () => true)
  add('shell', shell, view === 'deployed' ? isSecret : isOurs)
  return { variables, sources, file, devVars, root }
}

/** @throws {CommandError} */
function readFile(path: string, shown: string): WranglerFile {
  try {
    return new WranglerFile(shown, readFileSync(path, 'utf8'), /\.jsonc?$/.test(path))
  } catch (error) {
    if (error instanceof CommandError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new CommandError(`${shown} cannot be read (${code})`, { hint: 'Name another one with --config.' })
  }
}

/** @throws {CommandError} */
function refuseUnknownEnvironment(env: string, file: WranglerFile | undefined): void {
  const known = Object.keys(file?.table('env') ?? {})
  if (known.includes(env)) return
  const hint = known.length > 0 ? `It has ${known.join(', ')}.` : 'It has none: leave --env out.'
  throw new CommandError(`${file?.name ?? 'wrangler.toml'} has no environment ${JSON.stringify(env)}`, { hint })
}

/** As in Wrangler: the environment's file replaces the other. */
function readDevVars(directory: string, env: string | undefined, cwd: string): DevVars | undefined {
  const names = env === undefined ? ['.dev.vars'] : [`.dev.vars.${env}`, '.dev.vars']
  const path = names.map((name) => join(directory, name)).find((each) => existsSync(each))
  if (path === undefined) return undefined
  const text = readFileSync(path, 'utf8')
  return { file: shownFrom(cwd, path), text, values: parse(text) }
}

/** In the order in which Wrangler looks for them. */
function findWranglerFile(from: string): string | undefined {
  const names = ['wrangler.json', 'wrangler.jsonc', 'wrangler.toml']
  return names.map((name) => findUpwards(resolve(from), name)).find((path) => path !== undefined)
}

function findUpwards(directory: string, name: string): string | undefined {
  const path = join(directory, name)
  if (existsSync(path)) return path
  return directory === dirname(directory) ? undefined : findUpwards(dirname(directory), name)
}

/** A path as one would type it. */
function shownFrom(cwd: string, path: string): string {
  const shown = relative(cwd, path)
  return shown.startsWith(join('..', '..', '..')) ? path : shown
}
