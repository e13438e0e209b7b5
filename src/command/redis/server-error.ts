import { CommandError } from '../command-error.ts'

const HINTS: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:WRONGPASS|NOAUTH|ERR Client sent AUTH|ERR invalid password|Unauthorized)/i,
    'User, password or token are not those of this database.',
  ],
  [/^NOPERM/, 'The user of this URL may not do that.'],
  [/^(?:OOM|READONLY|LOADING|BUSY|MISCONF)/, 'The server cannot do that now.'],
]

const MAX_CHARACTERS = 200

/** The server answered an error. @param secrets what its words may repeat */
export function serverError(words: string, secrets: readonly string[]): CommandError {
  const text = secrets.reduce((all, secret) => all.replaceAll(secret, '…'), words).slice(0, MAX_CHARACTERS)
  const hint = HINTS.find(([pattern]) => pattern.test(words))?.[1]
  return new CommandError(`Redis answered an error: ${text}`, { exit: 'redis', ...(hint !== undefined && { hint }) })
}
