/** Arguments and options that tell whom a block, an allow or an override is about. */
import { type Command, Option } from '@commander-js/extra-typings'
import type { Config } from '../../config/load-config.ts'
import { type Caller, claimReaderOf, NO_RESPONSE, type Pairs, requestOf } from '../../request/caller/caller.ts'
import type { Claims } from '../../request/identity/claims.ts'
import { type Target, targetOf } from '../../rules/target.ts'
import { collectClaims } from '../caller/claims.ts'
import { DIGEST, HEADER, IP, QUERY, TOKEN } from '../caller/options.ts'
import { CommandError } from '../command-error.ts'
import type { Terminal } from '../terminal.ts'

const CLAIM = new Option(
  '--claim <name=value>',
  'what the token of the caller says, e.g. sub=alice or id:=42; with one *, all whose claim is like that',
).argParser(readClaimOption)
const CIDR = new Option('--cidr <network>', 'all of a network, such as 203.0.113.0/24 or 2001:db8::/32')
const COUNTRY = new Option('--country <code>', 'all of a country, as Cloudflare tells it, such as DE; T1 is Tor')
const ASN = new Option('--asn <number>', 'all of a network operator, such as 64500').argParser(readAsn)

/** Adds those that name a caller. */
export const ofWhom = (command: Command) =>
  command.addArgument(TOKEN).addOption(IP).addOption(HEADER).addOption(QUERY).addOption(CLAIM).addOption(DIGEST)

/** Adds those that name callers or a network. */
export const ofWhomOrNetwork = (command: Command) => ofWhom(command).addOption(CIDR)

/** Adds those that name callers, a network, or all from somewhere. */
export const ofWhomOrPlace = (command: Command) => ofWhomOrNetwork(command).addOption(COUNTRY).addOption(ASN)

interface Claimed {
  readonly name: string
  readonly value: string
  readonly claims: Claims
}

export interface Who {
  readonly ip?: string | undefined
  readonly header?: Pairs | undefined
  readonly query?: Pairs | undefined
  readonly claim?: Claimed | undefined
  readonly digest?: string | undefined
  readonly cidr?: string | undefined
  readonly country?: string | undefined
  readonly asn?: number | undefined
}

const HINT = 'For example a token, --ip 203.0.113.7, --header x-api-key=k-123 or --digest.'

/**
 * Whom they name. What a caller sends becomes a digest, so that it does not stand in the document.
 * @returns undefined if they name nobody
 * @throws {CommandError | CallerError} if they name somebody in more ways than one, or in none that is known
 */
export async function targetOfWho(
  config: Config,
  terminal: Terminal,
  token: string | undefined,
  { ip, header, query, claim, digest, cidr, country, asn }: Who,
): Promise<Target | undefined> {
  const said = { token, ip, header, query, claim, digest, cidr, country, asn }
  const ways = Object.values(said).filter((value) => value !== undefined).length
  if (ways === 0) return undefined
  const pairs = [...(header ?? []), ...(query ?? [])]
  if (ways > 1 || pairs.length > 1) throw new CommandError('expected one way to say who is meant', { hint: HINT })
  if (digest !== undefined) return { digest }
  if (cidr !== undefined) return { cidr }
  if (country !== undefined) return { country }
  if (asn !== undefined) return { asn }
  const [pair] = pairs
  const by = header ? `header:${pair?.[0].toLowerCase()}` : query ? `query:${pair?.[0]}` : undefined
  if (header && pair?.[1].includes('*')) return { by: by as string, value: pair[1] }
  if (claim?.value.includes('*')) return { by: `claim:${claim.name}`, value: claim.value }
  // A token that is read need not stand in the history of a shell.
  const given = token === '-' ? await terminal.readInput() : token
  const caller: Caller = { token: given, ip, header, query, claim: claim?.claims }
  const kind = by ?? (claim ? `claim:${claim.name}` : ip === undefined ? 'token' : 'ip')
  const readClaim = (path: readonly string[]) => claimReaderOf(claim?.claims)(path, null, NO_RESPONSE)
  const target = await targetOf(kind, requestOf(caller), { ...config, readClaim })
  if (target) return target
  throw new CommandError(`expected what a caller can be known by, got no usable ${kind.split(':')[0]}`, { hint: HINT })
}

/** A target in a few words. */
export function nameOfWho({ by, digest, value, cidr, country, asn }: Target): string {
  if (cidr !== undefined) return cidr
  if (country !== undefined) return `country ${country}`
  if (asn !== undefined) return `AS${asn}`
  return [...(by === undefined ? [] : [by]), value ?? digest ?? ''].join(' ')
}

/** @throws {CommandError} */
function readClaimOption(text: string, before?: Claimed): Claimed {
  if (before) throw new CommandError('--claim: expected one claim')
  const claims = collectClaims(text)
  const [, name = '', value = ''] = /^([^=\s]+?):?=(.*)$/s.exec(text) ?? []
  return { name, value, claims }
}

/** @throws {CommandError} */
function readAsn(text: string): number {
  const [, digits] = /^(?:AS)?(\d{1,10})$/i.exec(text) ?? []
  if (digits !== undefined) return Number(digits)
  throw new CommandError(`--asn: expected a number such as 64500, got ${JSON.stringify(text.slice(0, 100))}`)
}
