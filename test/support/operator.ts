import { PLANTED } from '../setup/secret-watch.ts'
import { type Answer, send } from './http-client.ts'

export const ADMIN_TOKEN = `${PLANTED}-of-operators-0123456789abcdef`

export interface OperatorRequest {
  /** Default: POST with a body, else GET. */
  readonly method?: string
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Asks the API of the operators as one of them. @param path below `/_sluice/admin` */
export function operate(gateway: URL, path: string, request: OperatorRequest = {}): Promise<Answer> {
  const { body, headers, method = body === undefined ? 'GET' : 'POST' } = request
  return send(gateway, {
    method,
    path: `/_sluice/admin${path}`,
    headers: {
      Authorization: `Bearer ${ADMIN_TOKEN}`,
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
}
