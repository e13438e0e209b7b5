/** Scripts as Upstash takes them, for a plain Redis. */
import { createHash } from 'node:crypto'

/** The line that says to Upstash how to lock; a Redis that knows scripts but not this flag refuses it. */
const FLAGS_LINE = /^#!lua[^\n]*/

export interface ScriptFlags {
  /** The command as plain Redis takes it. */
  strip(args: string[]): string[]
  /** The reply as the sender of the unstripped command expects it. */
  restore(args: readonly string[], reply: unknown): unknown
}

/**
 * Lets a plain Redis take scripts whose first line is `#!lua flags=…`, as Upstash does. Clients know a script by the
 * hash of the text they sent, Redis by that of the text it got: hashes are translated both ways. Which scripts are
 * loaded, only Redis knows.
 * @param strips false: everything passes as it is
 */
export function createScriptFlags(strips = true): ScriptFlags {
  const strippedShas = new Map<string, string>()

  const stripScript = (script: string): string => {
    // Only the text of the line goes: the line break stays, so that line numbers in errors stay right.
    const stripped = strips ? script.replace(FLAGS_LINE, '') : script
    if (stripped !== script) strippedShas.set(hash(script), hash(stripped))
    return stripped
  }
  const findStrippedSha = (sha: string): string => strippedShas.get(sha.toLowerCase()) ?? sha

  return {
    strip(args) {
      const [name = '', first = '', ...rest] = args
      switch (name.toUpperCase()) {
        case 'EVAL':
        case 'EVAL_RO':
          return [name, stripScript(first), ...rest]
        case 'EVALSHA':
        case 'EVALSHA_RO':
          return [name, findStrippedSha(first), ...rest]
        case 'SCRIPT':
          if (isScriptLoad(args)) return [name, first, ...rest.map(stripScript)]
          return [name, first, ...rest.map(findStrippedSha)]
        default:
          return args
      }
    },
    restore(args, reply) {
      const script = args[2]
      return isScriptLoad(args) && script !== undefined ? hash(script) : reply
    },
  }
}

function isScriptLoad([name, subcommand]: readonly string[]): boolean {
  return name?.toUpperCase() === 'SCRIPT' && subcommand?.toUpperCase() === 'LOAD'
}

function hash(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}
