/** Collects the variables of a configuration from Wrangler's file, from .dev.vars and from the shell. */
import { existsSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { parse } from 'dotenv'
import { NEVER_EMPTY } from '../../http/config/load-config.ts'
import { findMeantVariable, SECRETS, VARIABLES } from '../../http/config/variables.ts'
import { CommandError } from '../command-error.ts'
import { readText } from '../read-text.ts'
import { WranglerFile } from './wrangler-file.ts'

export interface SettingsOptions {
  readonly cwd: string
  /** Environment of the shell, of which only variables of Sluice and likely misspellings of them count. */
  readonly shell: Readonly<Record<string, string | undefined>>
  /** Path of Wrangler's file; by default, the one that Wrangler finds from `cwd` upwards. */
  readonly config?: string | undefined
  readonly env?: string | undefined
  /** Which variables to read: as `wrangler deploy` sets them, with the secrets known here, or as `npm run dev` does. */
  readonly view: 'deployed' | 'development'
}

type SettingSource = 'wrangler' | '.dev.vars' | 'shell'

export interface DevVars {
  readonly file: string
  readonly text: string
  readonly values: Readonly<Record<string, string>>
}

export interface Settings {
  readonly variables: Readonly<Record<string, unknown>>
  readonly sources: ReadonlyMap<string, SettingSource>
  /** Undefined if there is none: all variables then come from the shell and `.dev.vars`. */
  readonly file: WranglerFile | undefined
  readonly devVars: DevVars | undefined
  /** Path of the environment in Wrangler's file: `[]`, or `['env', name]`. */
  readonly root: readonly string[]
}

/** @throws {CommandError} if a named file is not there, cannot be read, or has no such environment */
export function readSettings({ cwd, shell, config, env: named, view }: SettingsOptions): Settings {
  // As for Wrangler, an empty name is the top level.
  const env = named || undefined
  const path = config === undefined ? findWranglerFile(cwd) : resolve(cwd, config)
  const file = path === undefined ? undefined : readWranglerFile(path, formatPath(cwd, path))
  if (env !== undefined) refuseUnknownEnvironment(env, file)
  const devVars = readDevVars(path === undefined ? cwd : dirname(path), env, cwd)
  const root = env === undefined ? [] : ['env', env]

  const sources = new Map<string, SettingSource>()
  const variables: Record<string, unknown> = {}
  const add = (
    source: SettingSource,
    values: Readonly<Record<string, unknown>>,
    isTaken: (name: string) => boolean,
  ) => {
    for (const [name, value] of Object.entries(values)) {
      if (!isTaken(name)) continue
      if (value === undefined || (value === '' && isUnset(name, source))) {
        delete variables[name]
        sources.delete(name)
      } else {
        variables[name] = value
        sources.set(name, source)
      }
    }
  }
  const isSecret = (name: string) => SECRETS.has(name)
  const isUnset = (name: string, source: SettingSource) =>
    // A copy of .dev.vars.example names them all, and a deployed Worker has its own. That of a server may have been lost.
    isSecret(name) &&
    (source === '.dev.vars' || (source === 'shell' && (view === 'deployed' || !NEVER_EMPTY.has(name))))
  const isOurs = (name: string) =>
    (VARIABLES as readonly string[]).includes(name) || findMeantVariable(name) !== undefined
  // A development server does not send requests to the deployed API.
  const isForDevelopment = (name: string) => name !== 'UPSTREAM_URL'
  add('wrangler', file?.getTable(...root, 'vars') ?? {}, view === 'deployed' ? () => true : isForDevelopment)
  add('.dev.vars', devVars?.values ?? {}, view === 'deployed' ? isSecret : () => true)
  add('shell', shell, view === 'deployed' ? isSecret : isOurs)
  return { variables, sources, file, devVars, root }
}

function readWranglerFile(path: string, shown: string): WranglerFile {
  const file = new WranglerFile(shown, readText(path, shown, 'Name another one with --config.'), /\.jsonc?$/.test(path))
  if (Array.isArray(file.get())) throw new CommandError(`${shown}:1:1: expected an object`)
  return file
}

function refuseUnknownEnvironment(env: string, file: WranglerFile | undefined): void {
  const known = Object.keys(file?.getTable('env') ?? {})
  if (known.includes(env)) return
  const hint = known.length > 0 ? `It has ${known.join(', ')}.` : 'It has none: leave --env out.'
  throw new CommandError(`${file?.name ?? 'wrangler.toml'} has no environment ${JSON.stringify(env)}`, { hint })
}

/** The file of the environment replaces the other one, as in Wrangler. */
function readDevVars(directory: string, env: string | undefined, cwd: string): DevVars | undefined {
  const names = env === undefined ? ['.dev.vars'] : [`.dev.vars.${env}`, '.dev.vars']
  const path = names.map((name) => join(directory, name)).find((each) => existsSync(each))
  if (path === undefined) return undefined
  const file = formatPath(cwd, path)
  const text = readText(path, file)
  return { file, text, values: parse(text) }
}

/** Looks for each name in all directories upwards before the next name, as Wrangler does. */
function findWranglerFile(from: string): string | undefined {
  const directories = [resolve(from)]
  for (let at = resolve(from); at !== dirname(at); at = dirname(at)) directories.push(dirname(at))
  const names = ['wrangler.json', 'wrangler.jsonc', 'wrangler.toml']
  return names.flatMap((name) => directories.map((directory) => join(directory, name))).find((each) => existsSync(each))
}

/** Formats a path relative to the working directory, unless it is far from there. */
function formatPath(cwd: string, path: string): string {
  const shown = relative(cwd, path) || '.'
  return shown.startsWith(join('..', '..', '..')) ? path : shown
}
