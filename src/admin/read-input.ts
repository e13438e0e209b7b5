import * as v from 'valibot'
import { badInput, type Operation, OperationError } from './operation.ts'

/** @throws {OperationError} that says where the mistake is */
export function readInput(schema: Operation['answer'], value: unknown): unknown {
  const result = v.safeParse(schema, value, { abortEarly: true })
  if (result.success) return result.output
  const [{ path = [], expected, received }] = result.issues
  const place = path.map(({ key }) => String(key)).join('.')
  const wanted = expected === 'never' ? 'no such name' : (expected ?? `something other than ${received}`)
  throw new OperationError(badInput(place, wanted))
}
