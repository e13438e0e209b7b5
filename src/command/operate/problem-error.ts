import { isCallerKind } from '../../request/identity/source.ts'
import { ALL_OPTIONS, OPTION_NAMES } from '../caller/options.ts'
import { CommandError } from '../command-error.ts'

/** As the API tells what is wrong (RFC 9457). */
export interface Told {
  readonly status: number
  readonly detail: string
  /** Names in the body, with dots between. */
  readonly place?: string | undefined
}

/** What was refused, with the options of the command in place of the names in a body. */
export function problemError({ status, detail, place = '' }: Told): CommandError {
  const prefix = `${place}: `
  const isPlaced = place !== '' && detail.startsWith(prefix)
  const option = optionAt(place)
  const words = (isPlaced ? detail.slice(prefix.length) : detail).replace(/\.$/, '')
  const sentence = words.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())
  const hint = hintOf(status, place)
  return new CommandError(isPlaced && option !== undefined ? `--${option}: ${words}` : sentence, {
    exit: status >= 500 ? 'redis' : 'misuse',
    ...(hint !== undefined && { hint }),
  })
}

/** @returns undefined where it is an argument, or no option alone */
function optionAt(place: string): string | undefined {
  if (/^(?:for|until|remove)$/.test(place)) return place
  if (/^policies\.\d+$/.test(place)) return 'policy'
  const [, part = ''] = /^(?:caller|who)\.(\w+)/.exec(place) ?? []
  if (isCallerKind(part)) return OPTION_NAMES[part]
  return part === 'digest' ? part : undefined
}

function hintOf(status: number, place: string): string | undefined {
  if (status === 409) return 'Look at it, and try again.'
  if (/^who\b/.test(place)) return 'For example a token, --ip 203.0.113.7, --header x-api-key=k-123 or --digest.'
  if (place === 'caller') return `A token, ${ALL_OPTIONS}, --route or --digest.`
  return undefined
}
