import { DurableObjectStore } from '../store/durable-object/durable-object-store.ts'
import { type ObjectNamespace, objectsOf } from '../store/durable-object/objects.ts'

/** Limits shared by all isolates, in Durable Objects. @param timeoutMs deadline of a decision */
export function objectStore(namespace: ObjectNamespace, timeoutMs: number): DurableObjectStore {
  return new DurableObjectStore({ objects: objectsOf(namespace), timeoutMs })
}
