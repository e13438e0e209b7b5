import type { Reading } from '../../src/core/model/identity-source.ts'
import { readPart } from '../../src/http/request/identity/request-parts.ts'
import type { ReceivedRequest } from '../../src/http/request/received-request.ts'

/** Reads a parameter as policies do that count by it. @param mergesParameters as MERGED_PARAMETERS says */
export function readPlace(
  place: Parameters<typeof readPart>[0],
  request: ReceivedRequest,
  path: string | readonly string[],
  mergesParameters = false,
): Promise<Reading> {
  return readPart(place, typeof path === 'string' ? [path] : path, { request, route: '', mergesParameters })
}
