/** Every promise of the middleware where nothing but a `Request` is needed, on workerd and on Node alike. */
import { describeMiddleware } from '../matrix/describe-middleware.ts'
import { WEB_ADAPTERS } from '../matrix/web-adapters.ts'

describeMiddleware(WEB_ADAPTERS)
