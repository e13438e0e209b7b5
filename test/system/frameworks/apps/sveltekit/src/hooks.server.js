import { limit } from 'sluice/fetch'
import { building } from '$app/environment'
import { options } from '../../options.js'

const limited = limit((_request, { event, resolve }) => resolve(event), {
  ...options,
  trustProxy: (_request, { event }) => event.getClientAddress(),
})
export const handle = (input) =>
  building || input.event.isSubRequest ? input.resolve(input.event) : limited(input.event.request, input)
