// A dashboard as it stands in JSON: Grafana's own types, with enums read as the values they have there, and the
// options of each kind of panel that we use in place of "any object".
import type { Dashboard, DataQuery, FieldConfig, Panel, RowPanel, VariableModel } from "@grafana/schema";
import type * as BarGauge from "./node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as Heatmap from "./node_modules/@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as Stat from "./node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as StateTimeline from "./node_modules/@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as Table from "./node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as TimeSeries from "./node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** String enums as their values, all the way down. */
type Plain<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends number | boolean | null | undefined
      ? T
      : T extends object
        ? { [Key in keyof T]: Plain<T[Key]> }
        : T;

/** What the data source makes of a target; its types are not part of @grafana/schema. */
interface PrometheusQuery extends DataQuery {
  expr: string;
  legendFormat: string;
  format: "time_series" | "table" | "heatmap";
  editorMode: "code";
  instant: boolean;
  range: boolean;
}

interface Kind<Type extends string, Options, Custom = Record<string, never>>
  extends Omit<Panel, "type" | "options" | "fieldConfig" | "targets"> {
  type: Type;
  title: string;
  description: string;
  options: Options;
  targets: PrometheusQuery[];
  fieldConfig: {
    defaults: Omit<FieldConfig, "custom"> & { custom?: Custom };
    overrides: NonNullable<Panel["fieldConfig"]>["overrides"];
  };
}

// Grafana fills in what a provisioned panel leaves out, so these need not name what they don't change.
type AnyPanel =
  | Kind<"stat", Omit<Stat.Options, "percentChangeColorMode" | "showPercentChange">>
  | Kind<"timeseries", TimeSeries.Options, TimeSeries.FieldConfig>
  | Kind<"heatmap", Heatmap.Options>
  | Kind<"bargauge", BarGauge.Options>
  | Kind<"table", Omit<Table.Options, "frameIndex">, Partial<Table.FieldConfig>>
  | Kind<"state-timeline", StateTimeline.Options, StateTimeline.FieldConfig>;

// `definition` is written by Grafana itself beside the query of a variable.
type Variable = VariableModel & { definition?: string };

export type Checked = Plain<
  Omit<Dashboard, "panels" | "templating"> & {
    panels: Array<AnyPanel | (RowPanel & { panels: [] })>;
    templating: { list: Variable[] };
  }
>;
