/** Reads the URL of a Redis that sentinels watch: `redis+sentinel://[[user]:password@]host[:port],…/master[/number]`. */

export interface SentinelUrl {
  readonly sentinels: readonly { readonly host: string; readonly port: number }[]
  /** Name of the master, as its sentinels have it. */
  readonly master: string
  /** Number of the database. */
  readonly database: number
  readonly isSecure: boolean
  /** The servers require them, not the sentinels. */
  readonly credentials: Credentials
  readonly sentinelCredentials: Credentials
}

interface Credentials {
  readonly username?: string
  readonly password?: string
}

const FORM = /^redis(s?)\+sentinel:\/\/(?:([^@/]*)@)?([^@/?#]+)\/([^/?#]+)(?:\/(\d*))?(?:\?([^#]*))?$/
const SENTINEL_PORT = 26_379
const QUERY = ['sentinel_username', 'sentinel_password']

/** @returns undefined for any other text */
export function parseSentinelUrl(text: string): SentinelUrl | undefined {
  const [, secure, login = '', hosts = '', master = '', database = '', query = ''] = FORM.exec(text) ?? []
  const sentinels = hosts.split(',').map(parseHost)
  const given = new URLSearchParams(query)
  const [name, password] = readLogin(login) ?? []
  if (secure === undefined || name === undefined || ![...given.keys()].every((key) => QUERY.includes(key)))
    return undefined
  if (!sentinels.every((sentinel) => sentinel !== undefined)) return undefined
  return {
    sentinels,
    master,
    database: Number(database),
    isSecure: secure === 's',
    credentials: toCredentials(name, password),
    sentinelCredentials: toCredentials(given.get('sentinel_username'), given.get('sentinel_password')),
  }
}

function parseHost(text: string): SentinelUrl['sentinels'][number] | undefined {
  const url = URL.canParse(`redis://${text}`) ? new URL(`redis://${text}`) : undefined
  if (!url || url.hostname === '' || url.pathname !== '') return undefined
  return { host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(url.port) || SENTINEL_PORT }
}

function readLogin(text: string): readonly string[] | undefined {
  const [username = '', ...password] = text.split(':')
  try {
    return [username, password.join(':')].map(decodeURIComponent)
  } catch {
    return undefined
  }
}

function toCredentials(username: string | null | undefined, password: string | null | undefined): Credentials {
  return { ...(username && { username }), ...(password && { password }) }
}
