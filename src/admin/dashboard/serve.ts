import { FILES } from './files.ts'

/** Nothing but its own script, style and API: whatever a caller has written somewhere, none of it can run. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

/** @param name below `/_sluice/`; empty for the page itself @returns undefined for no file of the dashboard */
export function serveFile(name: string, request: Request): Response | undefined {
  const file = Object.hasOwn(FILES, name) ? FILES[name as keyof typeof FILES] : undefined
  if (!file || !/^(?:GET|HEAD)$/.test(request.method)) return undefined
  const { type, etag, text } = file
  const headers = {
    'Content-Type': type,
    'Content-Security-Policy': POLICY,
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-cache',
    ETag: etag,
  }
  if (request.headers.get('If-None-Match')?.includes(etag)) return new Response(null, { status: 304, headers })
  return new Response(request.method === 'HEAD' ? null : text, { headers })
}
