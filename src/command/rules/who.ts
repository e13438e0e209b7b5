/** Arguments and options that tell whom a block, an allow or an override is about. */
import { type Command, Option } from '@commander-js/extra-typings'
import type { Pairs } from '../../request/caller/caller.ts'
import { readClaim } from '../../request/caller/caller-in-text.ts'
import type { CallerKind } from '../../request/identity/source.ts'
import { type NamedKind, whoNamed } from '../../rules/who-in-text.ts'
import { COOKIE, DIGEST, FORM, HEADER, IP, JSON_MEMBER, QUERY, TOKEN } from '../caller/options.ts'
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
  command
    .addArgument(TOKEN)
    .addOption(IP)
    .addOption(HEADER)
    .addOption(QUERY)
    .addOption(COOKIE)
    .addOption(FORM)
    .addOption(JSON_MEMBER)
    .addOption(CLAIM)
    .addOption(DIGEST)

/** Adds those that name callers or a network. */
export const ofWhomOrNetwork = (command: Command) => ofWhom(command).addOption(CIDR)

/** Adds those that name callers, a network, or all from somewhere. */
export const ofWhomOrPlace = (command: Command) => ofWhomOrNetwork(command).addOption(COUNTRY).addOption(ASN)

interface Claimed {
  readonly name: string
  readonly value: unknown
}

export interface Who {
  readonly ip?: string | undefined
  readonly header?: Pairs | undefined
  readonly query?: Pairs | undefined
  readonly cookie?: Pairs | undefined
  readonly form?: Pairs | undefined
  readonly jsonMember?: Pairs | undefined
  readonly claim?: Claimed | undefined
  readonly digest?: string | undefined
  readonly cidr?: string | undefined
  readonly country?: string | undefined
  readonly asn?: number | undefined
}

/**
 * Whom they name, as the body of an operation has it.
 * @returns undefined if they name nobody
 * @throws {CommandError} if they name somebody in more ways than one
 */
export async function readWho(
  terminal: Terminal,
  token: string | undefined,
  { ip, header, query, cookie, form, jsonMember: json, claim, digest, cidr, country, asn }: Who,
): Promise<object | undefined> {
  const named = { token, ip, header, query, cookie, form, json, claim } satisfies Readonly<Record<CallerKind, unknown>>
  const said = { ...named, digest, cidr, country, asn }
  const [way, ...others] = Object.entries(said).filter(([, value]) => value !== undefined)
  if (!way) return undefined
  const pairs = [header, query, cookie, form, json].flatMap((some) => some ?? [])
  const [pair, ...more] = pairs
  if (others.length > 0 || more.length > 0) {
    throw new CommandError('expected one way to say who is meant', {
      hint: 'For example a token, --ip 203.0.113.7, --header x-api-key=k-123 or --digest.',
    })
  }
  // A token that is read need not stand in the history of a shell.
  if (token !== undefined) return { token: token === '-' ? await terminal.readInput() : token }
  if (pair) return whoNamed(way[0] as NamedKind, ...pair)
  if (claim) return whoNamed('claim', claim.name, claim.value)
  return Object.fromEntries([way])
}

/** @throws {CommandError} */
function readClaimOption(text: string, before?: Claimed): Claimed {
  if (before) throw new CommandError('--claim: expected one claim')
  const { name, value } = readClaim(text)
  return { name, value }
}

/** @throws {CommandError} */
function readAsn(text: string): number {
  const [, digits] = /^(?:AS)?(\d{1,10})$/i.exec(text) ?? []
  if (digits !== undefined) return Number(digits)
  throw new CommandError(`--asn: expected a number such as 64500, got ${JSON.stringify(text.slice(0, 100))}`)
}
