/** Warns of how a middleware is used: of each mistake once, since a program that means it goes on so. */
import type { Log, LogEvent } from '../core/runtime/log.ts'
import { createAddressReader, type TrustProxy } from '../http/request/identity/address-reader.ts'

const MESSAGES = {
  unknown_address: 'addresses of callers are not known here, so all are counted as one: see trustProxy',
  untrusted_proxy:
    'X-Forwarded-For, X-Real-IP or Forwarded was sent and is not believed: behind a proxy, all callers are one without trustProxy',
  unknown_identity:
    'identify or plan returned nothing for the first 100 requests: authentication may come later, or leave what it knows elsewhere',
  counted_twice: 'a request passed one middleware twice and was counted twice: it may be mounted twice on one path',
} satisfies Partial<Record<LogEvent, string>>

export type Warn = (event: keyof typeof MESSAGES) => void

/** @returns writes each warning once */
export function createWarn(log: Log): Warn {
  const warned = new Set<LogEvent>()
  return function logOnce(event) {
    if (warned.has(event)) return
    warned.add(event)
    log('warn', { event, message: MESSAGES[event] })
  }
}

/** Fields in which proxies tell the address of a client. */
const FORWARDING = ['x-forwarded-for', 'x-real-ip', 'forwarded']

/** Makes a reader of addresses, as `createAddressReader` does, that warns of what makes all callers one. */
export function createWatchedAddressReader<Args extends unknown[]>(
  trustProxy: TrustProxy<Args>,
  readPeer: (...args: Args) => string | null,
  readField: (name: string, ...args: Args) => string | null,
  warn: Warn,
): (...args: Args) => string | null {
  const readAddress = createAddressReader(trustProxy, readPeer, (...args) => readField('x-forwarded-for', ...args))
  return (...args) => {
    const address = readAddress(...args)
    if (address === null) warn('unknown_address')
    else if (trustProxy === undefined && FORWARDING.some((name) => readField(name, ...args) !== null))
      warn('untrusted_proxy')
    return address
  }
}
