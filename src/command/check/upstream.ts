import type { Config } from '../../config/load-config.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'

/** An upstream that is nobody's API, or the gateway itself. */
export function upstreamMistakes(
  { upstreamUrl, upstreamSecret }: Config,
  { file, root, sources }: Settings,
): readonly Finding[] {
  if (upstreamUrl === undefined || !sources.has('UPSTREAM_URL')) return []
  const { protocol, hostname } = new URL(upstreamUrl)
  if (/(?:^|\.)example\.(?:com|net|org)$/.test(hostname)) {
    return [
      {
        rule: 'example-upstream',
        message: `UPSTREAM_URL is still that of an example, ${hostname}`,
        hint: 'Set it to the origin of your API.',
        variable: 'UPSTREAM_URL',
      },
    ]
  }
  if (
    upstreamSecret !== undefined &&
    protocol === 'http:' &&
    !/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
  ) {
    return [
      {
        rule: 'secret-in-clear',
        message: 'UPSTREAM_SECRET goes to the API over http, where others can read it',
        hint: 'Let the API answer over https.',
        variable: 'UPSTREAM_URL',
      },
    ]
  }
  const route = routesOf(
    file?.get(...root, 'routes') ?? file?.get('routes'),
    file?.get(...root, 'route') ?? file?.get('route'),
  ).find((pattern) => isOfHost(pattern, hostname))
  if (route === undefined) return []
  return [
    {
      rule: 'upstream-is-route',
      message: `UPSTREAM_URL is of the host that the route "${route}" sends to the gateway itself`,
      hint: 'Give the API a host of its own, which no route is for.',
      variable: 'UPSTREAM_URL',
    },
  ]
}

function routesOf(routes: unknown, route: unknown): readonly string[] {
  const all = [...(Array.isArray(routes) ? routes : []), route]
  return all
    .map((each) => (typeof each === 'object' && each !== null ? (each as { pattern?: unknown }).pattern : each))
    .filter((pattern) => typeof pattern === 'string')
}

function isOfHost(pattern: string, hostname: string): boolean {
  const [host = ''] = pattern.replace(/^\*?https?:\/\//, '').split('/')
  const isSuffix = host.startsWith('*')
  return isSuffix ? hostname.endsWith(host.replace(/^\*/, '')) : host === hostname
}
