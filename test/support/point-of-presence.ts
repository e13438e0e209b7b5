import type { Bundle } from './build-bundle.ts'
import { type DirectGateway, startDirectGateway } from './direct-gateway.ts'

export type PointOfPresence = DirectGateway

/** @param bindings variables, tables among them as objects */
export function startPointOfPresence(
  bundle: Bundle,
  bindings: Readonly<Record<string, unknown>>,
): Promise<PointOfPresence> {
  return startDirectGateway({ bundle, bindings })
}
