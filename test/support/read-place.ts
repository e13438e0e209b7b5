import type { Reading } from '../../src/core/model/identity-source.ts'
import { readPlaces } from '../../src/http/request/identity/places.ts'
import type { ReceivedRequest } from '../../src/http/request/received-request.ts'

/** Reads a parameter as policies do that count by it. @param mergesParameters as MERGED_PARAMETERS says */
export function readPlace(
  place: Parameters<typeof readPlaces>[0],
  request: ReceivedRequest,
  path: string | readonly string[],
  mergesParameters = false,
): Promise<Reading> {
  return readPlaces(place, typeof path === 'string' ? [path] : path, { request, route: '', mergesParameters })
}
